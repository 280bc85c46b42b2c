// Names and units follow Prometheus's guidelines: base units, _total for counters, one HELP and
// TYPE before the lines of each.
#include "server/metrics/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "npu/npu.h"
#include "server/clients/session.h"
#include "server/config/options.h"
#include "server/handle/services.h"
#include "server/heap.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/jobs/memory.h"
#include "server/jobs/sram_use.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_lines.h"
#include "server/metrics/metrics_machine.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/net/connection.h"
#include "server/runner/runner_options.h"
#include "server/shelf/shelf.h"
#include "server/shelf/shelf_pins.h"
#include "server/turns.h"

// ---- lines --------------------------------------------------------------------------------------

void metrics_put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP rknnd_%s %s\n# TYPE rknnd_%s %s\n", name, help, name, type);
}

static void put_gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    metrics_put_head(out, name, "gauge", help);
    fprintf(out, "rknnd_%s %" PRIu64 "\n", name, value);
}

static void put_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    metrics_put_head(out, name, "counter", help);
    fprintf(out, "rknnd_%s %" PRIu64 "\n", name, value);
}

void metrics_put_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (metrics_is_escaped(*value))
            putc_unlocked('\\', out);
        putc_unlocked(*value, out);
    }
    putc_unlocked('"', out);
}

void metrics_put_seconds(FILE *out, uint64_t us)
{
    fprintf(out, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

// ---- what is counted ----------------------------------------------------------------------------

static void put_errors(FILE *out, const struct metrics *m)
{
#define X(code, name, text) [-(code)] = #name,
    static const char *const names[METRICS_CODES] = {STATUS_LIST(X)};
#undef X
    metrics_put_head(out, "errors_total", "counter", "Requests that were answered with an error.");
    for (unsigned i = 1; i < METRICS_CODES; i++)
        if (names[i])
            fprintf(out, "rknnd_errors_total{code=\"%s\"} %" PRIu64 "\n", names[i], m->errors[i]);
}

static void put_device(FILE *out, const struct services *s)
{
    const struct scheduler *scheduler = &s->jobs->scheduler;
    metrics_put_head(out, "build_info", "gauge", "What runs; always 1.");
    fprintf(out, "rknnd_build_info{version=\"" RKNND_VERSION "\",");
    metrics_put_label(out, "chip", s->device->chip);
    fputc(',', out);
    metrics_put_label(out, "backend", s->device->backend);
    fprintf(out, "} 1\n");
    put_gauge(out, "cores", "Cores of the device.", scheduler->n_cores);
    metrics_put_head(out, "core_busy_seconds_total", "counter",
                     "How long a core was given to runs.");
    for (uint32_t i = 0; i < scheduler->n_cores; i++) {
        fprintf(out, "rknnd_core_busy_seconds_total{core=\"%u\"} ", i);
        metrics_put_seconds(out, metrics_total(s, METRICS_CORE_BUSY + i));
    }
    put_gauge(out, "sram_free_bytes", "SRAM of the device that nobody has.",
              s->sram->total - s->sram->used);
}

_Static_assert(METRICS_CORES == SCHEDULER_MAX_CORES, "each core is counted");

static uint64_t total_here(const struct services *s, unsigned which)
{
    const struct runner_counters *counters = s->runner_options->counters;
    switch (which) {
    case METRICS_UPLOADS:
        return s->metrics->uploads;
    case METRICS_UPLOAD_BYTES:
        return s->metrics->upload_bytes;
    case METRICS_WORKER_DEATHS:
        return counters->worker_deaths;
    case METRICS_RETRIES:
        return counters->jobs_retried;
    case METRICS_SLOW_TURNS:
        return s->turns->n_slow;
    case METRICS_LOG_LINES_DROPPED:
        return log_n_left_out();
    case METRICS_STORE_PUSHES:
        return s->shelf->n_pushes;
    case METRICS_STORE_LOADS:
        return s->shelf->n_loads;
    case METRICS_STORE_FAILURES:
        return s->shelf->n_failures;
    default:
        return s->jobs->scheduler.core_us[which - METRICS_CORE_BUSY];
    }
}

uint64_t metrics_total(const struct services *s, unsigned which)
{
    return total_here(s, which) + s->metrics->before[which];
}

// By the names that Prometheus has for its own.
static void put_config(FILE *out, const struct metrics *m)
{
    put_gauge(out, "config_last_reload_successful",
              "Whether the configuration was good when it was last read (1), or stays as it was.",
              !m->config_is_behind);
    put_gauge(out, "config_last_reload_success_timestamp_seconds",
              "When the configuration that counts was read, since 1970.", m->config_s);
}

static void put_now(FILE *out, const struct services *s)
{
    const struct scheduler *scheduler = &s->jobs->scheduler;
    put_gauge(out, "heap_bytes", "Memory of the service that is allocated, without its workers'.",
              heap_allocated(s->heap, uv_now(s->loop)));
    put_gauge(out, "connections", "Connections of programs.", s->connections->n);
    put_gauge(out, "sessions", "Programs that are connected.", s->sessions->n);
    put_gauge(out, "sessions_before",
              "Programs that are still connected to a daemon whose place this one has taken.",
              s->metrics->sessions_before);
    put_gauge(out, "contexts", "Contexts that programs have open.", s->contexts->n);
    put_gauge(out, "models_loaded", "Models that are loaded.", s->store->keeper.n_loaded);
    put_gauge(out, "workers", "Worker processes.", s->runner_options->counters->workers);
    put_gauge(out, "inferences_waiting", "Runs that wait for cores.",
              scheduler->n_waiting + scheduler->n_suspended);
    put_gauge(out, "inferences_running", "Runs that the device has.", scheduler->n_running);
    put_gauge(out, "uploads", "Models that are being sent.", s->uploads->n_uploads);
    put_gauge(out, "model_bytes", "Files of models in use.",
              s->store->bytes - s->store->cached_bytes);
    put_gauge(out, "cached_model_bytes", "Files of models that nobody uses.",
              s->store->cached_bytes);
    put_gauge(out, "stored_models", "Versions of models that are kept by name.",
              s->shelf->n_stored);
    put_gauge(out, "stored_model_bytes", "Files of models that are kept by name.", s->shelf->bytes);
    put_gauge(out, "preloaded_models", "Models of these that stay loaded.",
              shelf_pins_count(s->pins));
    put_counter(out, "stored_model_pushes_total", "Models that were stored.",
                metrics_total(s, METRICS_STORE_PUSHES));
    put_counter(out, "stored_model_loads_total", "Stored models that were read from the disk.",
                metrics_total(s, METRICS_STORE_LOADS));
    put_counter(out, "stored_model_failures_total", "What was asked of stored models and failed.",
                metrics_total(s, METRICS_STORE_FAILURES));
    put_gauge(out, "buffer_bytes", "Memory for inputs and outputs.",
              s->runner_options->counters->buffers.bytes);
    put_gauge(out, "shared_memory_bytes", "Memory that programs share with the device.",
              s->memories->bytes);
}

static void put_totals(FILE *out, const struct services *s)
{
    put_counter(out, "uptime_seconds_total", "Since the service started.",
                (uv_now(s->loop) - s->started_ms) / 1000);
    put_counter(out, "uploads_total", "Models that came whole.", metrics_total(s, METRICS_UPLOADS));
    put_counter(out, "upload_bytes_total", "Bytes of them.",
                metrics_total(s, METRICS_UPLOAD_BYTES));
    put_counter(out, "worker_deaths_total", "Workers that ended by themselves.",
                metrics_total(s, METRICS_WORKER_DEATHS));
    put_counter(out, "inferences_retried_total", "Runs that were repeated, as their worker died.",
                metrics_total(s, METRICS_RETRIES));
    put_counter(out, "slow_turns_total", "Turns of the service's loop over 50 ms.",
                metrics_total(s, METRICS_SLOW_TURNS));
    put_counter(out, "log_lines_dropped_total", "Lines of the log that nobody read in time.",
                metrics_total(s, METRICS_LOG_LINES_DROPPED));
}

// One text for all who ask: a database that finds a line missing takes a counter for gone, so it is
// all or nothing.
int metrics_text_begin(struct metrics_text *t, const struct services *s, const struct reading *now,
                       struct error *e)
{
    int r = growing_text_open(&t->text, e);
    if (r < 0)
        return r;
    FILE *out = t->text.file;
    put_device(out, s);
    put_config(out, s->metrics);
    put_now(out, s);
    put_totals(out, s);
    put_errors(out, s->metrics);
    metrics_machine(out, now);
    metrics_series_begin(&t->series, s->metrics, out);
    return 0;
}

bool metrics_text_more(struct metrics_text *t)
{
    return metrics_series_more(&t->series);
}

int metrics_text_end(struct metrics_text *t, char **ret, size_t *ret_size, struct error *e)
{
    return growing_text_close(&t->text, "metrics", ret, ret_size, e);
}
