// Usage for programs: JSON, and Prometheus's text format (version 0.0.4: HELP and TYPE, then a line
// for each client or model). Counters are totals since the server began, in seconds and bytes as
// Prometheus wants it.
#include <inttypes.h>
#include <stddef.h>

#include "tools/view/usage.h"

static json_t *clients_json(const rknnd_stats *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->clients->n; i++) {
        const rknnd_client_stats *c = rknnd_client_stats_at(s->clients, i);
        json_array_append_new(
            list,
            json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I}",
                      "client", (json_int_t)c->client, "program", c->program, "origin", c->origin,
                      "user", c->user, "connections", (json_int_t)c->connections, "contexts",
                      (json_int_t)c->contexts, "jobs_waiting", (json_int_t)c->jobs_waiting,
                      "jobs_running", (json_int_t)c->jobs_running, "jobs_done",
                      (json_int_t)c->jobs_done, "jobs_failed", (json_int_t)c->jobs_failed,
                      "core_us", (json_int_t)c->core_us, "queue_us", (json_int_t)c->queue_us,
                      "user_bytes", (json_int_t)c->user_bytes, "stopped", c->stopped != 0,
                      "silent_ms", (json_int_t)c->silent_ms));
    }
    return list;
}

static json_t *models_json(const rknnd_stats *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->models->n; i++) {
        const rknnd_model_stats *m = rknnd_model_stats_at(s->models, i);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
                                              m->name, "contexts", (json_int_t)m->contexts, "jobs",
                                              (json_int_t)m->jobs, "run_us", (json_int_t)m->run_us,
                                              "memory_size", (json_int_t)m->memory_size,
                                              "worker_pid", (json_int_t)m->worker_pid,
                                              "worker_deaths", (json_int_t)m->worker_deaths));
    }
    return list;
}

// Counters as they are; null handling is json_pack()'s: out of memory gives NULL.
json_t *usage_json(const rknnd_stats *s)
{
    json_t *cores = json_array();
    for (uint32_t i = 0; i < s->cores->n; i++)
        json_array_append_new(
            cores,
            json_pack("{s:I}", "busy_us", (json_int_t)rknnd_core_stats_at(s->cores, i)->busy_us));
    return json_pack("{s:I, s:o, s:o, s:o}", "uptime_ms", (json_int_t)s->uptime_ms, "cores", cores,
                     "clients", clients_json(s), "models", models_json(s));
}
