// Functions of rknnd.h that ask one question: about a server, a model or a run. Those about servers
// use a connection for one question (one_shot.h), those about runs a context.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/api/context.h"
#include "client/debug/profile.h"
#include "client/last_error.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/model/load_options.h"
#include "client/model/stored.h"
#include "client/model/upload.h"
#include "client/sized.h"
#include "rknnd.h"

RKNN_EXPORT const char *rknnd_version(void)
{
    return RKNND_VERSION;
}

RKNN_EXPORT void rknnd_free(void *memory)
{
    free(memory);
}

// ---- servers -----------------------------------------------------------------------------------

// From what the server said in HELLO: nothing is asked.
static void describe_server(const struct connection *c, rknnd_server_info *ret)
{
    const rknnd_HelloReply *p = &c->peer;
    *ret = (rknnd_server_info){.protocol_version = p->version,
                               .n_cores = p->device.n_cores,
                               .heartbeat_ms = p->limits.heartbeat_ms,
                               .peer_timeout_ms = p->limits.peer_timeout_ms,
                               .timing = (rknnd_timing)p->device.timing,
                               .sram_size = p->device.sram_size,
                               .max_model_size = p->limits.model_size,
                               .max_payload_size = p->limits.payload_size};
    message_set_text(ret->uri, c->uri);
    message_set_text(ret->software, p->software);
    message_set_text(ret->chip, p->device.chip);
    message_set_text(ret->backend, p->device.backend);
    message_set_text(ret->runtime_version, p->device.runtime_version);
    message_set_text(ret->driver_version, p->device.driver_version);
    message_set_text(ret->buffers, p->buffers);
}

RKNN_EXPORT int rknnd_get_server_info(const char *uri, rknnd_server_info *info)
{
    struct error e;
    cleanup(one_shot_end_p) struct connection *c = NULL;
    rknnd_server_info ours;
    int r =
        info ? one_shot_begin(uri, &c, &e) : error_set(&e, STATUS_PARAM_INVALID, "info is NULL");
    if (r == 0 && c) {
        describe_server(c, &ours);
        r = sized_give(info, &ours, sizeof ours, &e);
    }
    return last_error_keep("rknnd_get_server_info", r, &e);
}

// SERVER_STATUS to the public struct, which is given to the program in its own size (sized.h).
static void take_status(const rknnd_ServerStatus *m, rknnd_server_status *ret)
{
    *ret = (rknnd_server_status){.connections = m->connections,
                                 .sessions = m->sessions,
                                 .contexts = m->contexts,
                                 .models = m->models,
                                 .workers = m->workers,
                                 .uploads = m->uploads,
                                 .jobs_waiting = m->jobs_waiting,
                                 .jobs_running = m->jobs_running,
                                 .uptime_ms = m->uptime_ms,
                                 .upload_bytes = m->upload_bytes,
                                 .cached_bytes = m->cached_bytes,
                                 .model_bytes = m->model_bytes,
                                 .buffer_bytes = m->buffer_bytes,
                                 .jobs_done = m->jobs_done,
                                 .jobs_failed = m->jobs_failed,
                                 .jobs_retried = m->jobs_retried,
                                 .worker_deaths = m->worker_deaths,
                                 .slow_turns = m->slow_turns,
                                 .longest_turn_us = m->longest_turn_us,
                                 .longest_turn_cpu_us = m->longest_turn_cpu_us,
                                 .lines_left_out = m->lines_left_out};
    message_set_text(ret->isolation, m->isolation);
}

RKNN_EXPORT int rknnd_get_server_status(const char *uri, rknnd_server_status *status)
{
    struct error e;
    rknnd_ServerStatus reply;
    rknnd_server_status ours;
    struct request request = {.type = MESSAGE_SERVER_STATUS, .reply = &reply};
    int r = status ? one_shot_call(uri, &request, &(rknnd_Empty){0}, &e)
                   : error_set(&e, STATUS_PARAM_INVALID, "status is NULL");
    if (r == 0) {
        take_status(&reply, &ours);
        r = sized_give(status, &ours, sizeof ours, &e);
    }
    return last_error_keep("rknnd_get_server_status", r, &e);
}

// Round trips in ns, one after the other. The token shows that an answer belongs to its Ping.
static int info_ping(struct connection *c, uint32_t n, uint64_t *round_trip_ns, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        rknnd_Ping message = {.token = i + 1}, reply;
        struct request request = {.type = MESSAGE_PING, .reply = &reply};
        uint64_t start = clock_ns();
        int r = connection_call(c, &request, &message, e);
        if (r < 0)
            return r;
        round_trip_ns[i] = clock_ns() - start;
        if (reply.token != message.token)
            return error_set(e, STATUS_FAIL, "server %s answers a Ping with other bytes", c->uri);
    }
    return 0;
}

RKNN_EXPORT int rknnd_ping(const char *uri, uint32_t n, uint64_t *round_trip_ns)
{
    struct error e;
    cleanup(one_shot_end_p) struct connection *c = NULL;
    int r = round_trip_ns || !n ? one_shot_begin(uri, &c, &e)
                                : error_set(&e, STATUS_PARAM_INVALID, "round_trip_ns is NULL");
    if (r == 0)
        r = info_ping(c, n, round_trip_ns, &e);
    return last_error_keep("rknnd_ping", r, &e);
}

// ---- models ------------------------------------------------------------------------------------

// The server's readers describe the model, so it has to have it first. *json is the caller's,
// rknnd_free().
static int info_describe(struct connection *c, struct model *m, char **json, struct error *e)
{
    uint64_t held = 0;
    struct payload text = {.limit = LIMIT_TEXT_BYTES};
    rknnd_ModelDescribe message;
    struct request request = {
        .type = MESSAGE_MODEL_DESCRIBE, .payload = payload_take, .owner = &text};
    message_set_text(message.options, load_options());
    int r = upload_model(c, m, &held, e);
    memcpy(message.sha256, m->sha256, sizeof message.sha256); // a stored one's is known now
    if (r == 0)
        r = connection_call(c, &request, &message, e);
    if (r == 0)
        *json = (char *)steal_ptr(text.data);
    payload_done(&text);
    return r;
}

RKNN_EXPORT int rknnd_describe_model(const char *uri, const char *path, char **json)
{
    struct error e;
    struct model m = {.fd = -1};
    cleanup(one_shot_end_p) struct connection *c = NULL;
    int r = path && json ? stored_or_file(&m, path, &e)
                         : error_set(&e, STATUS_PARAM_INVALID, "path or json is NULL");
    if (r == 0)
        r = one_shot_begin(uri, &c, &e);
    if (r == 0)
        r = info_describe(c, &m, json, &e);
    model_done(&m);
    return last_error_keep("rknnd_describe_model", r, &e);
}

// ---- runs --------------------------------------------------------------------------------------

// What the answer to the last run said; nothing is asked of the server.
static int get_run_info(const struct context *c, rknnd_run_info *info, struct error *e)
{
    if (!info)
        return error_set(e, STATUS_PARAM_INVALID, "info is NULL");
    if (!c->times.attempts)
        return error_set(e, STATUS_FAIL, "no run has ended yet");
    rknnd_run_info ours = {.attempts = c->times.attempts,
                           .core_mask = c->times.core_mask,
                           .run_us = c->times.run_us,
                           .queue_us = c->times.queue_us,
                           .total_us = c->total_us,
                           .timing = (rknnd_timing)c->connection->peer.device.timing,
                           .estimate_ns = c->times.estimate_ns,
                           .estimate_assumed = c->info.estimate_assumed,
                           .n_unestimated = c->info.n_unestimated};
    message_set_text(ours.estimate_chip, c->info.estimate_chip);
    return sized_give(info, &ours, sizeof ours, e);
}

// In ms, 0 for none; the server enforces it, from the next run on.
RKNN_EXPORT int rknnd_set_run_limit(rknn_context context, uint32_t limit_ms)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0)
        c->timeout_ms = limit_ms;
    return last_error_keep("rknnd_set_run_limit", r, &e);
}

RKNN_EXPORT int rknnd_set_run_admission(rknn_context context, int wanted)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0)
        c->admit = wanted != 0;
    return last_error_keep("rknnd_set_run_admission", r, &e);
}

RKNN_EXPORT int rknnd_get_run_info(rknn_context context, rknnd_run_info *info)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0)
        r = get_run_info(c, info, &e);
    return last_error_keep("rknnd_get_run_info", r, &e);
}

// Without the flag the server has collected nothing; an empty list would look like an empty model.
RKNN_EXPORT int rknnd_get_layers(rknn_context context, rknnd_list **layers)
{
    struct error e;
    struct profile p = {0};
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0 && !layers)
        r = error_set(&e, STATUS_PARAM_INVALID, "layers is NULL");
    if (r == 0 && !(c->flags & RKNN_FLAG_COLLECT_PERF_MASK))
        r = error_set(&e, STATUS_FAIL,
                      "the context was opened without RKNN_FLAG_COLLECT_PERF_MASK");
    if (r == 0)
        r = profile_get(c, &p, &e);
    if (r == 0)
        r = profile_to_program(&p, layers, &e);
    profile_done(&p);
    return last_error_keep("rknnd_get_layers", r, &e);
}
