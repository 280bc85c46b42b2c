// The flight recorder: a ring of fixed events, one cache line each, so that recording costs no more
// than writing it. Readers ask from a number on and see by the first one that comes what they
// missed.
#include "server/observe/trace.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

_Static_assert(sizeof(struct trace_event) == 64, "an event is a cache line");

// Rounded up to a power of two, so that a number's slot is found by a mask.
int trace_init(struct trace *t, uint32_t n_events, struct error *e)
{
    uint32_t n = n_events > 0;
    while (n < n_events)
        n *= 2;
    *t = (struct trace){.n_slots = n, .next = 1};
    if (n > 0 && !(t->events = calloc(n, sizeof *t->events)))
        return error_no_memory(e, "the flight recorder", n * sizeof *t->events);
    return 0;
}

void trace_done(struct trace *t)
{
    free(t->events);
    *t = (struct trace){.next = t->next};
}

static struct trace_event *trace_slot(const struct trace *t, uint64_t number)
{
    return &t->events[number & (t->n_slots - 1)];
}

// Overwrites the oldest event. The text is cut to what the slot holds, and is terminated because
// *event's own text is zero.
void trace_add_event(struct trace *t, const struct trace_event *event, const char *text)
{
    if (t->n_slots == 0)
        return;
    struct trace_event *to = trace_slot(t, t->next++);
    *to = *event;
    if (text)
        strncpy(to->text, text, sizeof to->text - 1);
}

void trace_add(struct trace *t, enum trace_kind kind, uint64_t client, uint64_t id, uint64_t value,
               const char *text)
{
    if (t->n_slots == 0)
        return;
    const struct trace_event event = {.time_us = uv_hrtime() / 1000,
                                      .client = client,
                                      .id = id,
                                      .value = value,
                                      .kind = (uint8_t)kind};
    trace_add_event(t, &event, text);
}

// Only for telling models apart; byte order does not matter.
uint64_t trace_model_id(const uint8_t sha256[MODEL_SHA256_SIZE])
{
    uint64_t id;
    memcpy(&id, sha256, sizeof id);
    return id;
}

uint64_t trace_oldest(const struct trace *t)
{
    return t->next > t->n_slots ? t->next - t->n_slots : 1;
}

const struct trace_event *trace_event(const struct trace *t, uint64_t number)
{
    return trace_slot(t, number);
}
