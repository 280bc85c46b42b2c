// LOG, LOG_LEVEL and TRACE: what the server says and what happens in it, for clients.
#include <stdlib.h>

#include "base/log.h"
#include "server/clients/rights.h"
#include "server/clients/session.h"
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
    return logbook_read(c->services->logbook, &c->requests, h, &any->LOG_request, c->account, e);
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

// At most; encoding them, and looking for whose they are, holds the loop up for some milliseconds
// at most.
// Each takes .6 us, and some answers may be made in one turn of the loop.
#define EVENTS_OF_ANSWER  256
#define CLIENTS_OF_ANSWER 64 // that are looked up, among all sessions

// Whose events a client may see.
struct seen {
    bool all;
    const struct connection *viewer;
    uint64_t last;  // that was looked up
    bool last_seen; // whether it may be seen
    unsigned n;     // that were looked up
};

// Events of one client often follow one another. What is left of one that has gone is nobody's.
static bool is_seen(struct seen *seen, uint64_t client)
{
    const struct connection *c = seen->viewer;
    const struct session *s;
    if (seen->all || (client && client == seen->last))
        return seen->all || seen->last_seen;
    seen->last = client;
    seen->last_seen = false;
    seen->n++;
    list_for_each (s, &c->services->sessions->all, link)
        if (s->id == client)
            seen->last_seen = session_is_visible(s, c->session, &c->origin);
    return seen->last_seen;
}

// Of others' events remains when, for which run and on which cores the device was busy.
static int put_event(struct delimited *q, struct seen *seen, const struct trace_event *event,
                     struct error *e)
{
    rknnd_TraceEvent m = {.kind = event->kind,
                          .time_us = event->time_us,
                          .client = event->client,
                          .id = event->id,
                          .value = event->value,
                          .cores = event->cores};
    bool run = event->kind >= TRACE_INPUTS && event->kind <= TRACE_LAYER;
    if (is_seen(seen, event->client))
        message_set_text(m.text, event->text);
    else
        m.client = 0;
    if (!run && !is_seen(seen, event->client))
        m.id = m.value = 0; // of models and processes
    return delimited_put(q, rknnd_TraceEvent_fields, &m, e);
}

struct trace_request {
    struct request request;
    uint64_t from;
};

// Answers with events from the oldest that is still there on; `end` tells the client where to
// continue.
static void answer_trace(struct request *request)
{
    struct trace_request *asked = container_of(request, struct trace_request, request);
    const struct connection *c = request->connection;
    const struct trace *t = c->services->trace;
    struct delimited q = {0};
    struct seen seen = {.all = c->rights & RIGHT_SEE_ALL, .viewer = c};
    uint64_t oldest = trace_oldest(t);
    rknnd_TraceReply m = {.first = asked->from > oldest ? asked->from : oldest,
                          .end = t->next,
                          .now_us = uv_hrtime() / 1000};
    struct error e;
    int r = 0;
    for (uint64_t i = m.first;
         r == 0 && i < t->next && m.n_events < EVENTS_OF_ANSWER && seen.n < CLIENTS_OF_ANSWER;
         i++) {
        r = put_event(&q, &seen, trace_event(t, i), &e);
        m.n_events++;
    }
    if (r < 0) {
        free(q.data);
        request_fail(request, &e);
    } else {
        struct iovec payload = {q.data, q.size};
        request_answer(request, rknnd_TraceReply_fields, &m, &payload, q.size > 0, free, q.data);
    }
    free(asked);
}

int handle_trace(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    struct trace_request *asked = request_new(&c->requests, h, sizeof *asked, e);
    if (!asked)
        return e->code;
    asked->from = any->TRACE_request.from;
    request_when_room(&asked->request, answer_trace);
    return 0;
}
