// rknnd_get_stats, rknnd_kill_client: how a server's device is shared among its clients. The
// answer's payload has cores, then clients, then models, as length-delimited messages. It is
// untrusted: counts are bounded, texts made printable.
#include "rknnd.h"

#include <stdlib.h>

#include "base/text/text.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/sized.h"

#define MAX_CORES   1024
#define MAX_ENTRIES 100000 // clients, or models

// These bounds also keep the size of the block from overflowing.
static int statistics_check(const rknnd_StatsReply *m, struct error *e)
{
    if (m->n_cores <= MAX_CORES && m->n_clients <= MAX_ENTRIES && m->n_models <= MAX_ENTRIES)
        return 0;
    return error_set(e, STATUS_FAIL, "the server reports %u cores, %u clients and %u models",
                     m->n_cores, m->n_clients, m->n_models);
}

// The take_...() functions turn one message each into a public struct. Times are in us. *ret
// is written also on failure, when the block is freed anyway.
static int take_core(struct bytes *rest, rknnd_core_stats *ret, struct error *e)
{
    rknnd_CoreStats m;
    int r = message_delimited_take(rknnd_CoreStats_fields, rest, &m, e);
    *ret = (rknnd_core_stats){.struct_size = sizeof *ret, .busy_us = m.busy_us};
    return r;
}

static int take_client(struct bytes *rest, rknnd_client_stats *ret, struct error *e)
{
    rknnd_ClientStats m;
    int r = message_delimited_take(rknnd_ClientStats_fields, rest, &m, e);
    *ret = (rknnd_client_stats){.struct_size = sizeof *ret,
                                .client = m.client,
                                .connections = m.connections,
                                .contexts = m.contexts,
                                .jobs_waiting = m.waiting,
                                .jobs_running = m.running,
                                .jobs_done = m.done,
                                .jobs_failed = m.failed,
                                .core_us = m.core_us,
                                .queue_us = m.queue_us,
                                .user_bytes = m.user_bytes,
                                .stopped = m.stopped,
                                .silent_ms = m.silent_ms};
    message_set_text(ret->program, m.program);
    message_set_text(ret->origin, m.origin);
    message_set_text(ret->user, m.user);
    text_make_printable(ret->program);
    text_make_printable(ret->origin);
    text_make_printable(ret->user);
    return r;
}

static int take_model(struct bytes *rest, rknnd_model_stats *ret, struct error *e)
{
    rknnd_ModelStats m;
    int r = message_delimited_take(rknnd_ModelStats_fields, rest, &m, e);
    *ret = (rknnd_model_stats){.struct_size = sizeof *ret,
                               .contexts = m.contexts,
                               .jobs = m.jobs,
                               .run_us = m.run_us,
                               .memory_size = m.memory_size,
                               .worker_pid = m.worker,
                               .worker_deaths = m.deaths};
    message_set_text(ret->name, m.name);
    text_make_printable(ret->name);
    return r;
}

// What the program gets is one block, freed by rknnd_free(): this, then clients, models, cores.
struct block {
    rknnd_stats stats;
    rknnd_list cores, clients, models;
};

// Allocates the block, lays out the lists in it, then fills them in the order of the payload.
static int take_stats(const rknnd_StatsReply *m, struct bytes rest, rknnd_stats **ret,
                      struct error *e)
{
    size_t size = sizeof(struct block) + m->n_clients * sizeof(rknnd_client_stats) +
                  m->n_models * sizeof(rknnd_model_stats) + m->n_cores * sizeof(rknnd_core_stats);
    cleanup(free_p) struct block *s = calloc(1, size);
    if (!s)
        return error_no_memory(e, "statistics", size);
    rknnd_client_stats *clients = (rknnd_client_stats *)(s + 1);
    rknnd_model_stats *models = (rknnd_model_stats *)(clients + m->n_clients);
    rknnd_core_stats *cores = (rknnd_core_stats *)(models + m->n_models);
    s->cores = sized_list(cores, m->n_cores, sizeof *cores);
    s->clients = sized_list(clients, m->n_clients, sizeof *clients);
    s->models = sized_list(models, m->n_models, sizeof *models);
    s->stats = (rknnd_stats){.struct_size = sizeof s->stats,
                             .uptime_ms = m->uptime_ms,
                             .cores = &s->cores,
                             .clients = &s->clients,
                             .models = &s->models};
    int r = 0;
    for (uint32_t i = 0; i < m->n_cores && r == 0; i++)
        r = take_core(&rest, &cores[i], e);
    for (uint32_t i = 0; i < m->n_clients && r == 0; i++)
        r = take_client(&rest, &clients[i], e);
    for (uint32_t i = 0; i < m->n_models && r == 0; i++)
        r = take_model(&rest, &models[i], e);
    if (r == 0)
        *ret = &steal_ptr(s)->stats;
    return r;
}

RKNN_EXPORT int rknnd_get_stats(const char *uri, rknnd_stats **stats)
{
    struct error e;
    struct payload lists = {.limit = LIMIT_STATS_BYTES};
    rknnd_StatsReply reply;
    struct request request = {
        .type = MESSAGE_STATS, .reply = &reply, .payload = payload_take, .owner = &lists};
    int r = stats ? one_shot_call(uri, &request, &(rknnd_Empty){0}, &e)
                  : error_set(&e, STATUS_PARAM_INVALID, "stats is NULL");
    if (r == 0)
        r = statistics_check(&reply, &e);
    if (r == 0)
        r = take_stats(&reply, (struct bytes){lists.data, lists.size}, stats, &e);
    payload_done(&lists);
    return last_error_keep("rknnd_get_stats", r, &e);
}

RKNN_EXPORT int rknnd_kill_client(const char *uri, uint64_t client)
{
    struct error e;
    struct request request = {.type = MESSAGE_CLIENT_KILL};
    int r = one_shot_call(uri, &request, &(rknnd_ClientKill){client}, &e);
    return last_error_keep("rknnd_kill_client", r, &e);
}
