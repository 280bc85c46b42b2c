// A server's events in the Trace Event Format, which Perfetto and other timeline viewers open. One
// thread uses a timeline.
#pragma once

#include <jansson.h>

#include "rknnd.h"

// Embedded by its owner.
struct timeline {
    json_t *events;        // list of the format
    json_t *jobs, *models; // by id: what has begun and not ended
    json_t *seen;          // clients and cores that have a name
    uint64_t n_waiting, n_running;
    int failed; // out of memory at some event
};

void timeline_init(struct timeline *t);
void timeline_done(struct timeline *t);

/// Adds an event; they come in the order of their numbers.
void timeline_add(struct timeline *t, const rknnd_event *event);

/// Names a client whose connecting was not among the events.
void timeline_name_client(struct timeline *t, uint64_t client, const char *name);

/// The whole as JSON, the caller's to free; nothing may be added afterwards. NULL: out of memory.
json_t *timeline_finish(struct timeline *t);
