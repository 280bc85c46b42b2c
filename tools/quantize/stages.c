// Stages follow each other without gaps, so each ends where the next one begins.
#include "tools/quantize/stages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define LEAST_NS 100000 // a stage that did nothing is not told

static uint64_t stages_processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// Without memory a stage is part of the one before.
void stages_begin(struct stages *s, const char *name)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 32;
        struct stage *items = realloc(s->items, room * sizeof *items);
        if (!items)
            return;
        s->items = items;
        s->room = room;
    }
    s->items[s->n++] = (struct stage){name, clock_ns(), stages_processor_ns()};
}

void stages_done(struct stages *s)
{
    free(s->items);
    *s = (struct stages){0};
}

json_t *stages_json(const struct stages *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i + 1 < s->n; i++) {
        const struct stage *from = &s->items[i], *to = from + 1;
        if (!*from->name || to->begun_ns - from->begun_ns < LEAST_NS)
            continue;
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", from->name, "begun_ns",
                                        (json_int_t)from->begun_ns, "ns",
                                        (json_int_t)(to->begun_ns - from->begun_ns), "processor_ns",
                                        (json_int_t)(to->processor_ns - from->processor_ns)));
    }
    return list;
}
