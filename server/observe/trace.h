// The flight recorder: what has happened lately, for rknnctl trace.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "protocol/message.h"

// PROTOCOL.md, TRACE, says what each has in its fields.
enum trace_kind {
    TRACE_CONNECT = 1,
    TRACE_DISCONNECT,
    TRACE_UPLOAD,
    TRACE_UPLOADED,
    TRACE_LOAD,
    TRACE_LOADED,
    TRACE_UNLOADED,
    TRACE_INPUTS,
    TRACE_QUEUED,
    TRACE_STARTED,
    TRACE_ENDED,
    TRACE_GONE,
    TRACE_LAYER,
    TRACE_WORKER_DIED,
};

struct trace_event {
    uint64_t time_us; // uv_hrtime()
    uint64_t client, id, value;
    uint16_t cores;
    uint8_t kind;
    char text[29]; // cut; makes it 64 bytes
};

// The latest events, numbered from 1 on. Loop thread only.
struct trace {
    struct trace_event *events;
    uint32_t n_slots; // a power of 2, or 0: nothing is recorded
    uint64_t next;    // number of the next event
};

/// Keeps at least `n_events` (0: none).
int trace_init(struct trace *t, uint32_t n_events, struct error *e);
void trace_done(struct trace *t);

/// Records what happens now. `text` may be NULL.
void trace_add(struct trace *t, enum trace_kind kind, uint64_t client, uint64_t id, uint64_t value,
               const char *text);

/// Records an event with a time and cores that the caller gives.
void trace_add_event(struct trace *t, const struct trace_event *event, const char *text);

/// A model's id in events: the beginning of its hash.
uint64_t trace_model_id(const uint8_t sha256[MODEL_SHA256_SIZE]);

/// The oldest event that is there still; trace->next if there is none. And one of those from there
/// to before trace->next.
uint64_t trace_oldest(const struct trace *t);
const struct trace_event *trace_event(const struct trace *t, uint64_t number);
