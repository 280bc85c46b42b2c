// The handlers, one for each message. Each either answers (or starts what will answer) and returns
// 0, or returns a negative status with an error, which dispatch sends. A handler that expects a
// payload names its destination with connection_receive(); otherwise the payload is dropped.
#pragma once

#include "server/net/connection.h"

struct job;
struct runner_options;

typedef int handle_function(struct connection *c, const struct frame_header *h,
                            const union message_any *m, struct error *e);

// X(MESSAGE, handler, states of the connection, right (clients/rights.h), answered, new work,
// cost): dispatch.c says what the columns and their words mean.
// clang-format off
#define HANDLE_LIST(X) \
    X(HELLO,            hello,            FRESH, ANYONE,  true,  true,  ONCE) \
    X(PING,             ping,             OPEN,  ANYONE,  true,  false, LITTLE) \
    X(CANCEL,           cancel,           OPEN,  ANYONE,  false, false, LITTLE) \
    X(GOODBYE,          goodbye,          READY, ANYONE,  false, false, LITTLE) \
    X(SERVER_STATUS,    server_status,    READY, SEE_OWN, true,  false, LITTLE) \
    X(STATS,            stats,            READY, SEE_OWN, true,  false, LIST) \
    X(CLIENT_KILL,      client_kill,      READY, SEE_OWN, true,  false, MORE) \
    X(LOG,              log,              READY, SEE_ALL, true,  true,  LINES) \
    X(LOG_LEVEL,        log_level,        READY, DEBUG,   true,  false, MORE) \
    X(TRACE,            trace,            READY, SEE_OWN, true,  false, LIST) \
    X(CLOCKS,           clocks,           READY, SEE_OWN, true,  false, MORE) \
    X(SENSORS,          sensors,          READY, SEE_OWN, true,  false, MORE) \
    X(LIMITS,           limits,           READY, SEE_OWN, true,  false, LIST) \
    X(METRICS,          metrics,          READY, SEE_ALL, true,  false, LIST) \
    X(MODEL_OFFER,      model_offer,      READY, RUN,     true,  true,  MORE) \
    X(MODEL_CHUNK,      model_chunk,      READY, RUN,     true,  true,  LITTLE) \
    X(MODEL_DESCRIBE,   model_describe,   READY, RUN,     true,  true,  MUCH) \
    X(MODEL_PUSH,       model_push,       READY, PUSH,    true,  true,  MUCH) \
    X(MODEL_LIST,       model_list,       READY, RUN,     true,  false, LIST) \
    X(MODEL_FIND,       model_find,       READY, RUN,     true,  true,  MORE) \
    X(MODEL_MANIFEST,   model_manifest,   READY, RUN,     true,  false, MORE) \
    X(MODEL_REMOVE,     model_remove,     READY, PUSH,    true,  true,  MORE) \
    X(MODEL_DEFAULT,    model_default,    READY, PUSH,    true,  true,  MORE) \
    X(MODEL_PULL,       model_pull,       READY, PUSH,    true,  true,  MORE) \
    X(CONTEXT_OPEN,     context_open,     READY, RUN,     true,  true,  MUCH) \
    X(CONTEXT_DUP,      context_dup,      READY, RUN,     true,  true,  MORE) \
    X(CONTEXT_CLOSE,    context_close,    READY, RUN,     true,  false, LITTLE) \
    X(CONTEXT_BIND,     context_bind,     READY, RUN,     true,  true,  LITTLE) \
    X(CONTEXT_INTERNAL, context_internal, READY, RUN,     true,  true,  LITTLE) \
    X(MEMORY_CREATE,    memory_create,    READY, RUN,     true,  true,  MORE) \
    X(MEMORY_IMPORT,    memory_import,    READY, RUN,     true,  true,  MORE) \
    X(MEMORY_FREE,      memory_free,      READY, RUN,     true,  false, MORE) \
    X(INFER,            infer,            READY, RUN,     true,  true,  LITTLE) \
    X(PROFILE,          profile,          READY, RUN,     true,  true,  MORE) \
    X(DUMP,             dump,             READY, RUN,     true,  true,  LITTLE) \
    X(DUMP_NEXT,        dump_next,        OPEN,  RUN,     false, false, LITTLE) \
    X(CUSTOM_LIST,      custom_list,      READY, RUN,     true,  true,  MORE) \
    X(CUSTOM_DONE,      custom_done,      OPEN,  RUN,     false, false, LITTLE)
// clang-format on
#define X(NAME, name, states, right, answered, new_work, cost) handle_function handle_##name;
HANDLE_LIST(X)
#undef X

/// A job for what INFER (or DUMP) asks, with room for its inputs and `output_room` bytes; then
/// infer_receive() takes the inputs and starts it. The job is the connection's from there on.
int infer_new(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
              uint64_t output_room, struct job **ret, struct error *e);
void infer_receive(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
                   struct job *j);

// Descriptions of models that are asked for. Embedded by the server.
struct describes {
    struct list waiting; // those that are being made come first
    const struct runner_options *runner_options;
};

void describes_init(struct describes *all, const struct runner_options *options);

/// Clients may have read what kept theirs from being made.
void describes_continue(struct describes *all);

/// Ends them all; for shutdown, after runner_cancel_all().
void describes_stop(struct describes *all);
