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

// ---- Prometheus ---------------------------------------------------------------------------------

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// A label and its value; backslash, quote and newline are escaped as the format says.
static void put_label(FILE *out, const char *before, const char *name, const char *value)
{
    fprintf(out, "%s%s=\"", before, name);
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", out);
        else
            fprintf(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    fputc('"', out);
}

// Closes the labels and prints microseconds as seconds, without a float's rounding.
static void put_us(FILE *out, uint64_t us)
{
    fprintf(out, "} %" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

// The only metric without a client or model: its samples are labelled by core.
static void put_cores(const rknnd_stats *s, FILE *out)
{
    put_head(out, "rknnd_core_busy_seconds_total", "counter", "Time that a core was busy.");
    for (uint32_t i = 0; i < s->cores->n; i++) {
        fprintf(out, "rknnd_core_busy_seconds_total{core=\"%u\"", i);
        put_us(out, rknnd_core_stats_at(s->cores, i)->busy_us);
    }
}

// One metric; `at` is the offset of its number in the struct of rknnd.h.
struct metric {
    const char *name, *type, *help;
    size_t at; // of the number in its struct
    enum { COUNT32, COUNT64, MICROSECONDS } kind;
};

static void put_value(FILE *out, const struct metric *m, const void *from)
{
    const void *field = (const char *)from + m->at;
    if (m->kind == MICROSECONDS)
        put_us(out, *(const uint64_t *)field);
    else
        fprintf(out, "} %" PRIu64 "\n",
                m->kind == COUNT32 ? *(const uint32_t *)field : *(const uint64_t *)field);
}

#define AT(field) offsetof(rknnd_client_stats, field)

// A metric's samples must be together, below its HELP and TYPE: hence metrics outside, clients
// inside.
static void put_clients(const rknnd_stats *s, FILE *out)
{
    static const struct metric metrics[] = {
        {"rknnd_client_contexts", "gauge", "Open contexts.", AT(contexts), COUNT32},
        {"rknnd_client_jobs_waiting", "gauge", "Jobs that wait.", AT(jobs_waiting), COUNT32},
        {"rknnd_client_jobs_running", "gauge", "Jobs that run.", AT(jobs_running), COUNT32},
        {"rknnd_client_jobs_total", "counter", "Jobs done.", AT(jobs_done), COUNT64},
        {"rknnd_client_jobs_failed_total", "counter", "Jobs failed.", AT(jobs_failed), COUNT64},
        {"rknnd_client_core_seconds_total", "counter", "Device time had, all cores added.",
         AT(core_us), MICROSECONDS},
        {"rknnd_client_queue_seconds_total", "counter", "Time that jobs waited for the device.",
         AT(queue_us), MICROSECONDS},
    };
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        put_head(out, metrics[k].name, metrics[k].type, metrics[k].help);
        for (uint32_t i = 0; i < s->clients->n; i++) {
            const rknnd_client_stats *c = rknnd_client_stats_at(s->clients, i);
            fprintf(out, "%s{client=\"%" PRIu64 "\"", metrics[k].name, c->client);
            put_label(out, ",", "user", c->user);
            put_label(out, ",", "program", c->program);
            put_value(out, &metrics[k], c);
        }
    }
}

#undef AT
#define AT(field) offsetof(rknnd_model_stats, field)

// The slot is a label too: two models may have the same name, and Prometheus refuses duplicate
// series.
static void put_models(const rknnd_stats *s, FILE *out)
{
    static const struct metric metrics[] = {
        {"rknnd_model_contexts", "gauge", "Contexts.", AT(contexts), COUNT32},
        {"rknnd_model_memory_bytes", "gauge", "Memory held, weights included.", AT(memory_size),
         COUNT64},
        {"rknnd_model_jobs_total", "counter", "Jobs done.", AT(jobs), COUNT64},
        {"rknnd_model_run_seconds_total", "counter", "Time on the device.", AT(run_us),
         MICROSECONDS},
        {"rknnd_model_worker_deaths_total", "counter", "Workers that died.", AT(worker_deaths),
         COUNT32},
    };
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        put_head(out, metrics[k].name, metrics[k].type, metrics[k].help);
        for (uint32_t i = 0; i < s->models->n; i++) {
            fprintf(out, "%s{slot=\"%u\"", metrics[k].name, i);
            put_label(out, ",", "model", rknnd_model_stats_at(s->models, i)->name);
            put_value(out, &metrics[k], rknnd_model_stats_at(s->models, i));
        }
    }
}

void usage_prometheus(const rknnd_stats *s, FILE *out)
{
    put_head(out, "rknnd_uptime_seconds", "counter", "Time since the server began.");
    fprintf(out, "rknnd_uptime_seconds %" PRIu64 ".%03" PRIu64 "\n", s->uptime_ms / 1000,
            s->uptime_ms % 1000);
    put_cores(s, out);
    put_clients(s, out);
    put_models(s, out);
}
