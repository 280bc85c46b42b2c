// PING, CANCEL, GOODBYE and SERVER_STATUS: requests about the connection and the daemon as a whole.
#include "base/log.h"
#include "server/clients/session.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/jobs/memory.h"
#include "server/jobs/sram_use.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/turns.h"

// The token goes back as it came.
int handle_ping(struct connection *c, const struct frame_header *h, const union message_any *m,
                struct error *e)
{
    (void)e;
    connection_reply(c, h, rknnd_Ping_fields, &m->PING_request);
    return 0;
}

// The request is answered with an error first, then its work is ended; abandoned() may free it. One
// that has been answered meanwhile is not an error: the messages crossed.
int handle_cancel(struct connection *c, const struct frame_header *h, const union message_any *m,
                  struct error *e)
{
    struct request *r = requests_find(&c->requests, m->CANCEL_request.request);
    struct error cancelled;
    (void)h;
    (void)e;
    if (!r)
        return 0;
    error_set(&cancelled, STATUS_FAIL, "the request was cancelled by the client");
    request_fail(r, &cancelled);
    if (r->abandoned)
        r->abandoned(r);
    return 0;
}

// Answers still go out; new requests are refused by dispatch.
int handle_goodbye(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    (void)h;
    (void)m;
    (void)e;
    log_debug("c%u says goodbye", c->number);
    c->state = CONNECTION_ENDING;
    return 0;
}

// Numbers that the parts keep anyway, so it costs little and an observer may ask often.
int handle_server_status(struct connection *c, const struct frame_header *h,
                         const union message_any *any, struct error *e)
{
    const struct services *s = c->services;
    const struct runner_counters *counters = s->runner_options->counters;
    (void)any;
    (void)e;
    rknnd_ServerStatus m = {
        .uptime_ms = uv_now(s->loop) - s->started_ms,
        .connections = s->connections->n,
        .sessions = s->sessions->n,
        .contexts = s->contexts->n,
        .models = s->store->keeper.n_loaded,
        .workers = counters->workers,
        .uploads = s->uploads->n_uploads,
        .upload_bytes = s->uploads->bytes,
        .cached_bytes = s->store->cached_bytes,
        .model_bytes = s->store->bytes - s->store->cached_bytes,
        .buffer_bytes = counters->buffers.bytes,
        .jobs_waiting = s->jobs->scheduler.n_waiting + s->jobs->scheduler.n_suspended,
        .jobs_running = s->jobs->scheduler.n_running,
        .jobs_done = s->jobs->n_done,
        .jobs_failed = s->jobs->n_failed,
        .jobs_retried = counters->jobs_retried,
        .worker_deaths = counters->worker_deaths,
        .memory_bytes = s->memories->bytes,
        .sram_free = s->sram->total - s->sram->used,
        .slow_turns = s->turns->n_slow,
        .longest_turn_us = s->turns->longest_us,
        .lines_left_out = log_n_left_out(),
        .longest_turn_cpu_us = s->turns->longest_cpu_us,
    };
    message_set_text(m.isolation, s->options->threads ? "thread" : "process");
    connection_reply(c, h, rknnd_ServerStatus_fields, &m);
    return 0;
}
