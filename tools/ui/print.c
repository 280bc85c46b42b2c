// What several commands print: servers, tensors, times, numbers in JSON. All of it goes to standard
// output; what fails there is noticed when main() flushes it.
#include "tools/ui/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "tools/format/format.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define NAME_COLUMN 12

int print_get_server(rknnd_server_info *info, struct error *e)
{
    *info = (rknnd_server_info){.struct_size = sizeof *info};
    int r = rknnd_get_server_info(NULL, info);
    char *const texts[] = {info->software,        info->chip,           info->backend,
                           info->runtime_version, info->driver_version, info->buffers};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text_make_printable(texts[i]);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

int print_get_status(rknnd_server_status *status, struct error *e)
{
    *status = (rknnd_server_status){.struct_size = sizeof *status};
    int r = rknnd_get_server_status(NULL, status);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

void print_server_line(const rknnd_server_info *info)
{
    printf("%s: %s, %s, %u core%s, %s", info->uri, info->software, info->chip, info->n_cores,
           info->n_cores == 1 ? "" : "s", info->backend);
}

// Keys are an interface for scripts: they are only ever added.
json_t *print_server_json(const rknnd_server_info *i)
{
    return json_pack(
        "{s:s, s:s, s:I, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "uri", i->uri,
        "software", i->software, "protocol_version", (json_int_t)i->protocol_version, "chip",
        i->chip, "backend", i->backend, "cores", (json_int_t)i->n_cores, "runtime_version",
        i->runtime_version, "driver_version", i->driver_version, "heartbeat_ms",
        (json_int_t)i->heartbeat_ms, "peer_timeout_ms", (json_int_t)i->peer_timeout_ms, "sram_size",
        (json_int_t)i->sram_size, "max_model_size", (json_int_t)i->max_model_size,
        "max_payload_size", (json_int_t)i->max_payload_size, "buffers", i->buffers);
}

json_t *print_status_json(const rknnd_server_status *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"uptime_ms", s->uptime_ms},
        {"connections", s->connections},
        {"sessions", s->sessions},
        {"contexts", s->contexts},
        {"models", s->models},
        {"workers", s->workers},
        {"worker_deaths", s->worker_deaths},
        {"uploads", s->uploads},
        {"upload_bytes", s->upload_bytes},
        {"cached_bytes", s->cached_bytes},
        {"model_bytes", s->model_bytes},
        {"buffer_bytes", s->buffer_bytes},
        {"jobs_waiting", s->jobs_waiting},
        {"jobs_running", s->jobs_running},
        {"jobs_done", s->jobs_done},
        {"jobs_failed", s->jobs_failed},
        {"jobs_retried", s->jobs_retried},
        {"slow_turns", s->slow_turns},
        {"longest_turn_us", s->longest_turn_us},
        {"longest_turn_cpu_us", s->longest_turn_cpu_us},
        {"lines_left_out", s->lines_left_out},
    };
    json_t *o = json_pack("{s:s}", "isolation", s->isolation);
    for (size_t i = 0; o && i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name, json_integer((json_int_t)numbers[i].value));
    return o;
}

json_t *print_attr_json(const rknn_tensor_attr *a)
{
    json_t *dims = json_array();
    for (uint32_t i = 0; i < a->n_dims; i++)
        json_array_append_new(dims, json_integer((json_int_t)a->dims[i]));
    return json_pack("{s:I, s:s, s:o, s:s, s:s, s:s, s:o, s:i, s:I}", "index", (json_int_t)a->index,
                     "name", a->name, "shape", dims, "layout", get_format_string(a->fmt), "type",
                     get_type_string(a->type), "quantization", get_qnt_type_string(a->qnt_type),
                     "scale", print_json_number((double)a->scale), "zero_point", a->zp, "bytes",
                     (json_int_t)a->size);
}

void print_text_shown(FILE *out, char *text)
{
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        text_make_printable(line);
        fprintf(out, "%s%s", line, rest ? "\n" : "");
    }
}

// Names in it are a server's or a model's.
static void print_shown(const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0)
        return;
    print_text_shown(stdout, text);
    free(text);
}

void print_heading(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(terminal_style(stdout, STYLE_BOLD), stdout);
    print_shown(format, args);
    printf("%s\n", terminal_style(stdout, STYLE_PLAIN));
    va_end(args);
}

// Names longer than NAME_COLUMN push the value to the right.
void print_line(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  %-*s ", NAME_COLUMN, name);
    print_shown(format, args);
    putchar('\n');
    va_end(args);
}

// n > 0. "half" is the range between the quartiles.
void print_times(const char *name, const uint64_t *us, uint32_t n)
{
    struct format_buffer min, q1, median, q3, max;
    if (n == 1)
        print_line(name, "%s", format_us(&median, us[0]));
    else
        print_line(name, "median %s, half %s to %s, all %s to %s",
                   format_us(&median, stats_percentile(us, n, 50)),
                   format_us(&q1, stats_percentile(us, n, 25)),
                   format_us(&q3, stats_percentile(us, n, 75)), format_us(&min, us[0]),
                   format_us(&max, us[n - 1]));
}

// Nothing for an NPU: there the time is measured.
void print_estimate(const struct timing *t, uint64_t ns)
{
    struct format_buffer b;
    if (t->software && ns)
        print_line("estimate", "%s on %s, %.1f runs/s", format_ns(&b, ns), t->chip,
                   1e9 / (double)ns);
}

int print_json(json_t *value, struct error *e)
{
    if (!value)
        return error_no_memory(e, "JSON", 0);
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(value);
    return 0;
}

// Paths may be any bytes, JSON is UTF-8: json_string() refuses others, then '?' stands for each
// byte that is not ASCII.
json_t *print_json_text(const char *text)
{
    json_t *j = json_string(text);
    cleanup(free_p) char *plain = j ? NULL : strdup(text);
    for (char *c = plain; c && *c; c++)
        if (*c & 0x80)
            *c = '?';
    return plain ? json_string(plain) : j;
}

// JSON has neither NaN nor infinity.
json_t *print_json_date(void)
{
    char text[32];
    struct tm tm;
    time_t seconds = time(NULL);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return json_string(text);
}

json_t *print_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

// `divisor` converts units: 1e3 for nanoseconds to microseconds.
json_t *print_percentiles_json(const uint64_t *sorted, size_t n, double divisor)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "min",
                     print_json_number((double)sorted[0] / divisor), "median",
                     print_json_number((double)stats_percentile(sorted, n, 50) / divisor), "p90",
                     print_json_number((double)stats_percentile(sorted, n, 90) / divisor), "p99",
                     print_json_number((double)stats_percentile(sorted, n, 99) / divisor), "max",
                     print_json_number((double)sorted[n - 1] / divisor));
}
