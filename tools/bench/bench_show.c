// One set of results, four forms: text for people, JSON and CSV for programs, and every sample in a
// file. A software NPU's times are the machine's, not the chip's: all four name them so (timing.h),
// so that no spreadsheet compares the two.
#include "tools/bench/bench_show.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/format/format.h"
#include "tools/format/order_stats.h"
#include "tools/format/table.h"
#include "tools/ui/print.h"
#include "tools/ui/terminal.h"

static const unsigned permilles[] = {0, 500, 900, 990, 999, 1000};
#define N_PERMILLES (sizeof permilles / sizeof *permilles)

double bench_per_second(const struct bench_result *r)
{
    return r->wall_ns ? (double)r->n * 1e9 / (double)r->wall_ns : 0;
}

// ---- people -------------------------------------------------------------------------------------

typedef const char *format_time(struct format_buffer *b, uint64_t time);

// One line of order statistics; times are sorted, n > 0.
static void print_times_of(const char *name, format_time *format, const uint64_t *t, size_t n)
{
    struct format_buffer b[N_PERMILLES];
    const char *s[N_PERMILLES];
    for (size_t i = 0; i < N_PERMILLES; i++)
        s[i] = format(&b[i], stats_permille(t, n, permilles[i]));
    print_line(name, "%9s %9s %9s %9s %9s %9s", s[0], s[1], s[2], s[3], s[4], s[5]);
}

// What was asked for by --rate, and what came of it with each number of clients.
static void print_rate(const struct bench_plan *plan, const struct bench_point *points, size_t n)
{
    uint64_t before, after;
    struct format_buffer b, c;
    if (plan->rate <= 0)
        return;
    printf("%.10g runs/s were asked for; latency counts from then on\n",
           plan->rate * plan->n_models);
    for (size_t i = 0; i < n; i++) {
        const struct bench_point *p = &points[i];
        if (!bench_is_overrun(&p->result, plan->rate * plan->n_models, &before, &after))
            continue;
        if (n > 1)
            printf("With %u client%s that is", p->clients, p->clients == 1 ? "" : "s");
        else
            printf("That is");
        printf(" more than could be done: %.1f runs/s were, and runs waited longer and longer "
               "(median latency %s in the first quarter, %s in the last). Ask for less, or, if the "
               "device is not busy, give it more --clients.\n",
               bench_per_second(&p->result), format_ns(&b, before), format_ns(&c, after));
    }
}

static void print_one(const struct bench_plan *plan, const rknnd_server_info *info,
                      const struct bench_point *p)
{
    const struct bench_result *r = &p->result;
    struct format_buffer b;
    printf("%zu runs by %u client%s in %s: %s%.1f runs/s\n", r->n, p->clients,
           p->clients == 1 ? "" : "s", format_ns(&b, r->wall_ns),
           r->timing.software ? "machine " : "", bench_per_second(r));
    print_rate(plan, p, 1);
    print_line("", "%9s %9s %9s %9s %9s %9s", "min", "median", "p90", "p99", "p99.9", "max");
    print_times_of("latency", format_ns, r->latency_ns, r->n);
    print_times_of("queue", format_us, r->queue_us, r->n);
    print_times_of(r->timing.software ? "machine run" : "run", format_us, r->run_us, r->n);
    print_estimate(&r->timing, r->estimate_ns);
    timing_print(&r->timing, info, stdout, "  ");
}

static const char *result_name(const struct bench_plan *plan, const struct bench_result *r)
{
    return r->model == BENCH_TOTAL && plan->n_models > 1 ? "all"
           : r->model == BENCH_TOTAL                     ? plan->models[0].path
                                                         : plan->models[r->model].path;
}

// A point's results: of several models each one's, then that of all.
static uint32_t point_n(const struct bench_plan *plan, const struct bench_point *p)
{
    return p->each ? plan->n_models + 1 : 1;
}

static const struct bench_result *point_result(const struct bench_plan *plan,
                                               const struct bench_point *p, uint32_t i)
{
    return p->each && i < plan->n_models ? &p->each[i] : &p->result;
}

static void add_text_row(struct table *t, const struct bench_plan *plan,
                         const struct bench_point *p, const struct bench_result *r)
{
    struct format_buffer b;
    uint32_t models = r->model == BENCH_TOTAL ? plan->n_models : 1;
    if (p->each)
        table_cell(t, "%s", result_name(plan, r));
    table_cell(t, "%u", p->clients * models);
    table_cell(t, "%.1f", bench_per_second(r));
    for (size_t k = 0; k < N_PERMILLES; k++)
        if (r->n > 0)
            table_cell(t, "%s", format_ns(&b, stats_permille(r->latency_ns, r->n, permilles[k])));
        else
            table_cell(t, "-");
}

static int print_sweep(const struct bench_plan *plan, const rknnd_server_info *info,
                       const struct bench_point *points, size_t n, struct error *e)
{
    static const struct table_column columns[] = {
        {.title = "Model", .align = TABLE_LEFT, .flexible = TABLE_CUT_START},
        {.title = "Clients", .align = TABLE_RIGHT},
        {.title = "Runs/s", .align = TABLE_RIGHT},
        {.title = "Min", .align = TABLE_RIGHT},
        {.title = "Median", .align = TABLE_RIGHT},
        {.title = "P90", .align = TABLE_RIGHT},
        {.title = "P99", .align = TABLE_RIGHT},
        {.title = "P99.9", .align = TABLE_RIGHT},
        {.title = "Max", .align = TABLE_RIGHT},
    };
    struct table t;
    bool one = !points[0].each;
    table_init(&t, columns + one, sizeof columns / sizeof *columns - one);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < point_n(plan, &points[i]); k++)
            add_text_row(&t, plan, &points[i], point_result(plan, &points[i], k));
    int status = table_print(&t, stdout, "  ", 0);
    table_done(&t);
    timing_print(&points[0].result.timing, info, stdout, "  ");
    return status < 0 ? error_no_memory(e, "a table", 0) : 0;
}

static int show_text(const struct bench_plan *plan, const rknnd_server_info *info,
                     const struct bench_point *points, size_t n, bool sweep, struct error *e)
{
    if (plan->n_models == 1)
        printf("%s on ", plan->models[0].path);
    else
        printf("%u models on ", plan->n_models);
    print_server_line(info);
    printf("\n");
    if (!sweep && plan->n_models == 1) {
        print_one(plan, info, points);
        return 0;
    }
    print_rate(plan, points, n);
    return print_sweep(plan, info, points, n, e);
}

// ---- programs -----------------------------------------------------------------------------------

static json_t *latency_json(const struct bench_result *r)
{
    json_t *o = print_percentiles_json(r->latency_ns, r->n, 1e3);
    double p999 = (double)stats_permille(r->latency_ns, r->n, 999) / 1e3;
    json_object_set_new(o, "p99.9", print_json_number(p999));
    return o;
}

// An NPU has "runs_per_second"; a software NPU the machine's and the chip's estimated ones.
static json_t *result_json(const struct bench_plan *plan, const struct bench_point *p,
                           const struct bench_result *r)
{
    uint64_t before, after;
    uint32_t models = r->model == BENCH_TOTAL ? plan->n_models : 1;
    json_t *o =
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "clients", (json_int_t)p->clients * models,
                  "runs", (json_int_t)r->n, "seconds", print_json_number((double)r->wall_ns / 1e9),
                  "latency_us", latency_json(r), "queue_us",
                  print_percentiles_json(r->queue_us, r->n, 1), "timing", timing_json(&r->timing));
    if (plan->rate > 0) {
        bool overrun = bench_is_overrun(r, plan->rate * models, &before, &after);
        json_object_set_new(o, "asked_per_second", print_json_number(plan->rate * models));
        json_object_set_new(o, "overrun", json_boolean(overrun));
    }
    timing_put(&r->timing, o, "run_us", print_percentiles_json(r->run_us, r->n, 1),
               timing_estimate(r->estimate_ns));
    timing_put(&r->timing, o, "runs_per_second", print_json_number(bench_per_second(r)),
               r->estimate_ns ? json_real(1e9 / (double)r->estimate_ns) : json_null());
    return o;
}

// Of several models {…, "models": [{"model": …, …}, …]}. A model without a run has a name alone.
static json_t *point_json(const struct bench_plan *plan, const struct bench_point *p)
{
    json_t *o = result_json(plan, p, &p->result);
    if (!p->each)
        return o;
    json_t *list = json_array();
    for (uint32_t i = 0; i < plan->n_models; i++) {
        json_t *one = p->each[i].n ? result_json(plan, p, &p->each[i]) : json_object();
        json_object_set_new(one, "model", print_json_text(plan->models[i].path));
        json_array_append_new(list, one);
    }
    json_object_set_new(o, "models", list);
    return o;
}

json_t *bench_json(const struct bench_plan *plan, const rknnd_server_info *info,
                   const struct bench_point *points, size_t n)
{
    json_t *models = json_array(), *list = json_array();
    for (uint32_t i = 0; i < plan->n_models; i++)
        json_array_append_new(models, print_json_text(plan->models[i].path));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, point_json(plan, &points[i]));
    return json_pack("{s:o, s:o, s:o}", "models", models, "server", print_server_json(info),
                     "points", list);
}

static int show_json(const struct bench_plan *plan, const rknnd_server_info *info,
                     const struct bench_point *points, size_t n, bool sweep, struct error *e)
{
    if (sweep && plan->n_models > 1)
        return print_json(bench_json(plan, info, points, n), e);
    json_t *o = json_pack("{s:o}", "server", print_server_json(info));
    if (plan->n_models == 1)
        json_object_set_new(o, "model", print_json_text(plan->models[0].path));
    if (!sweep) {
        json_t *one = point_json(plan, points);
        json_object_update(o, one);
        json_decref(one);
        return print_json(o, e);
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, point_json(plan, &points[i]));
    json_object_set_new(o, "points", list);
    return print_json(o, e);
}

// ---- spreadsheets -------------------------------------------------------------------------------

// The columns of a software NPU have other titles, so that machine times and estimates are not
// taken for the chip's.
static const struct table_column columns[] = {
    {.title = "Model"},         {.title = "Clients"},       {.title = "Runs"},
    {.title = "Seconds"},       {.title = "RunsPerSecond"}, {.title = "LatencyMin(us)"},
    {.title = "LatencyMedian"}, {.title = "LatencyP90"},    {.title = "LatencyP99"},
    {.title = "LatencyP99.9"},  {.title = "LatencyMax"},    {.title = "QueueMedian"},
    {.title = "RunMedian"},
};
static const struct table_column software_columns[] = {
    {.title = "Model"},
    {.title = "Clients"},
    {.title = "Runs"},
    {.title = "Seconds"},
    {.title = "MachineRunsPerSecond"},
    {.title = "LatencyMin(us)"},
    {.title = "LatencyMedian"},
    {.title = "LatencyP90"},
    {.title = "LatencyP99"},
    {.title = "LatencyP99.9"},
    {.title = "LatencyMax"},
    {.title = "QueueMedian"},
    {.title = "MachineRunMedian"},
    {.title = "EstimateRun"},
    {.title = "EstimateChip"},
};

static void add_row(struct table *t, const struct bench_plan *plan, const struct bench_point *p,
                    const struct bench_result *r)
{
    table_cell(t, "%s", result_name(plan, r));
    table_cell(t, "%u", p->clients * (r->model == BENCH_TOTAL ? plan->n_models : 1));
    table_cell(t, "%zu", r->n);
    table_cell(t, "%.9g", (double)r->wall_ns / 1e9);
    table_cell(t, "%.9g", bench_per_second(r));
    for (size_t i = 0; i < N_PERMILLES; i++)
        table_cell(t, "%.9g", (double)stats_permille(r->latency_ns, r->n, permilles[i]) / 1e3);
    table_cell(t, "%llu", (unsigned long long)stats_percentile(r->queue_us, r->n, 50));
    table_cell(t, "%llu", (unsigned long long)stats_percentile(r->run_us, r->n, 50));
    if (r->timing.software && r->estimate_ns)
        table_cell(t, "%.9g", (double)r->estimate_ns / 1e3);
    else if (r->timing.software)
        table_cell(t, "%s", "");
    if (r->timing.software)
        table_cell(t, "%s", r->timing.chip);
}

static int show_csv(const struct bench_plan *plan, const struct bench_point *points, size_t n,
                    struct error *e)
{
    struct table t;
    if (points[0].result.timing.software)
        table_init(&t, software_columns, sizeof software_columns / sizeof *software_columns);
    else
        table_init(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < point_n(plan, &points[i]); k++)
            if (point_result(plan, &points[i], k)->n > 0)
                add_row(&t, plan, &points[i], point_result(plan, &points[i], k));
    int status = table_csv(&t, stdout);
    table_done(&t);
    return status < 0 ? error_no_memory(e, "a table", 0) : 0;
}

int bench_show(const struct bench_plan *plan, const rknnd_server_info *info,
               const struct bench_point *points, size_t n, bool sweep, enum bench_form form,
               struct error *e)
{
    if (form == BENCH_CSV)
        return show_csv(plan, points, n, e);
    if (form == BENCH_JSON)
        return show_json(plan, info, points, n, sweep, e);
    return show_text(plan, info, points, n, sweep, e);
}

// Times in microseconds, as CSV or as an element of a list in JSON.
static void write_sample(FILE *f, bool json, const struct bench_sample *s, uint32_t clients)
{
    double start = (double)s->start_ns / 1e3, latency = (double)s->latency_ns / 1e3;
    unsigned long long queue = s->queue_us, run = s->run_us;
    if (json)
        fprintf(f,
                "{\"clients\": %u, \"client\": %u, \"start_us\": %.3f, \"latency_us\": %.3f, "
                "\"queue_us\": %llu, \"run_us\": %llu, \"model\": %u}",
                clients, s->client, start, latency, queue, run, s->model);
    else
        fprintf(f, "%u,%u,%.3f,%.3f,%llu,%llu,%u\n", clients, s->client, start, latency, queue, run,
                s->model);
}

// A write that fails shows at the end.
int bench_write_samples(const char *path, const struct bench_point *points, size_t n,
                        struct error *e)
{
    cleanup(output_file_drop) struct output_file file = {0};
    const char *ending = strrchr(path, '.'), *between = "";
    bool json = ending && strcmp(ending, ".json") == 0;
    int r = output_file_open(&file, path, e);
    if (r < 0)
        return r;
    fputs(json ? "{\"samples\": [\n"
               : "Clients,Client,Start(us),Latency(us),Queue(us),Run(us),Model\n",
          file.stream);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < points[i].result.n; k++) {
            fputs(between, file.stream);
            write_sample(file.stream, json, &points[i].result.samples[k], points[i].clients);
            between = json ? ",\n" : "";
        }
    fputs(json ? "\n]}\n" : "", file.stream);
    return output_file_close(&file, e);
}
