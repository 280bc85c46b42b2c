// The flight recorder.
#include "server/observe/trace.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "server/net/connection.h"
#include "server/net/delimited.h"

#define EVENTS_OF_ANSWER                                                                           \
    1024 // at most; encoding them holds the loop up for less than a millisecond

_Static_assert(sizeof(struct trace_event) == 64, "an event is a cache line");

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

static struct trace_event *slot(const struct trace *t, uint64_t number)
{
    return &t->events[number & (t->n_slots - 1)];
}

void trace_add_event(struct trace *t, const struct trace_event *event, const char *text)
{
    if (t->n_slots == 0)
        return;
    struct trace_event *to = slot(t, t->next++);
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

uint64_t trace_model_id(const uint8_t sha256[MODEL_SHA256_SIZE])
{
    uint64_t id;
    memcpy(&id, sha256, sizeof id);
    return id;
}

static int put(struct delimited *q, const struct trace_event *event, struct error *e)
{
    rknnd_TraceEvent m = {.kind = event->kind,
                          .time_us = event->time_us,
                          .client = event->client,
                          .id = event->id,
                          .value = event->value,
                          .cores = event->cores};
    message_set_text(m.text, event->text);
    return delimited_put(q, rknnd_TraceEvent_fields, &m, e);
}

int trace_read(const struct trace *t, struct connection *c, const struct frame_header *h,
               const rknnd_Trace *request, struct error *e)
{
    struct delimited q = {0};
    uint64_t oldest = t->next > t->n_slots ? t->next - t->n_slots : 1;
    rknnd_TraceReply m = {.first = request->from > oldest ? request->from : oldest,
                          .end = t->next,
                          .now_us = uv_hrtime() / 1000};
    int r = 0;
    for (uint64_t i = m.first; r == 0 && i < t->next && m.n_events < EVENTS_OF_ANSWER; i++) {
        r = put(&q, slot(t, i), e);
        m.n_events++;
    }
    if (r < 0) {
        free(q.data);
        return r;
    }
    struct iovec payload = {q.data, q.size};
    channel_send(&c->channel, message_frame(h->type, FRAME_REPLY, h->id, rknnd_TraceReply_fields,
                                            &m, &payload, q.size > 0, free, q.data));
    connection_update_flow(c);
    return 0;
}
