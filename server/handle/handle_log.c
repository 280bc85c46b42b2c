// LOG, LOG_LEVEL and TRACE: what the server says and what happens in it, for clients.
#include <stdlib.h>

#include "base/log.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"
#include "server/observe/logbook.h"
#include "server/observe/trace.h"
#include "server/runner/worker_process.h"

int handle_log(struct connection *c, const struct frame_header *h, const union message_any *any,
               struct error *e)
{
    return logbook_read(c->services->logbook, &c->requests, h, &any->LOG_request, &c->user->account,
                        e);
}

// The level is the process's, and workers have it too.
int handle_log_level(struct connection *c, const struct frame_header *h,
                     const union message_any *any, struct error *e)
{
    uint32_t level = any->LOG_LEVEL_request.level;
    if (level > LOG_TRACE)
        return error_set(e, STATUS_PARAM_INVALID, "log levels are 0 to %d, not %u", LOG_TRACE,
                         level);
    log_set_level((enum log_level)level);
    worker_processes_set_log_level(c->services->runner_options, (enum log_level)level);
    log_info("log level %u, says c%u (%s)", level, c->number, c->origin.text);
    connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return 0;
}

// ---- the flight recorder -----------------------------------------------------------------------

// At most; encoding them holds the loop up for less than a millisecond.
#define EVENTS_OF_ANSWER 1024

static int put_event(struct delimited *q, const struct trace_event *event, struct error *e)
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

// Answers with events from the oldest that is still there on; `end` tells the client where to
// continue.
int handle_trace(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    const struct trace *t = c->services->trace;
    const rknnd_Trace *request = &any->TRACE_request;
    struct delimited q = {0};
    uint64_t oldest = trace_oldest(t);
    rknnd_TraceReply m = {.first = request->from > oldest ? request->from : oldest,
                          .end = t->next,
                          .now_us = uv_hrtime() / 1000};
    int r = 0;
    for (uint64_t i = m.first; r == 0 && i < t->next && m.n_events < EVENTS_OF_ANSWER; i++) {
        r = put_event(&q, trace_event(t, i), e);
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
