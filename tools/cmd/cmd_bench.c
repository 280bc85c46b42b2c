// rknnctl bench: throughput and latency of a model with one or many clients. bench_run() measures;
// this file parses, shows the result as text, JSON or CSV, and judges the limits for use in CI.
#include <stdio.h>

#include "tools/format/format.h"
#include "tools/format/table.h"
#include "tools/rknnctl.h"
#include "tools/run/bench.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"

#define MAX_RUNS 100000000u // of all clients; their times are kept

struct bench_command {
    struct bench_plan plan;
    double fail_below, fail_p99_above; // runs/s, ms; 0: no matter
    uint32_t seed;
    bool json, csv;
};

// Each single time is kept for exact percentiles, hence the limit of runs times clients.
static int parse_options(int argc, char **argv, struct bench_command *c, struct error *e)
{
    struct bench_plan *p = &c->plan;
    const struct option_row rows[] = {
        OPTIONS_LOOP(&p->loop, "runs of each client (default 100)", 1, 10000000),
        {0, "clients", OPTION_NUMBER, &p->clients, "N", "clients at the same time (default 1)", 1,
         1024, NULL},
        OPTIONS_WARMUP(&p->warmup),
        TASK_INPUTS(&p->task),
        TASK_LOADING(&p->task),
        OPTIONS_SEED(&c->seed),
        {0, "float", OPTION_FLAG, &p->want_float, NULL, "get outputs as float32", 0, 0, NULL},
        {0, "fail-below", OPTION_REAL, &c->fail_below, "FPS", "fail (6) with fewer runs/s", 0,
         1000000000, NULL},
        {0, "fail-p99-above", OPTION_REAL, &c->fail_p99_above, "MS",
         "fail (6) with a larger latency", 0, 1000000000, NULL},
        OPTIONS_JSON(&c->json),
        OPTIONS_CSV(&c->csv),
    };
    const struct cmd_options options = {
        .usage = "bench MODEL [--loop N] [--clients N]",
        .summary =
            "Measures a model: each client has a context and a thread of its own, and sets\n"
            "the inputs, runs and gets the outputs again and again. Without -i the inputs are\n"
            "made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, e);
    if (r == 0 && (uint64_t)p->loop * p->clients > MAX_RUNS)
        r = error_set(e, STATUS_PARAM_INVALID, "--loop: %u runs of %u clients are more than %u",
                      p->loop, p->clients, MAX_RUNS);
    return r ? r : cmd_options_check_form(c->json, c->csv, e);
}

// Runs of all clients over the wall time; 0 when nothing was measured.
static double per_second(const struct bench_result *r)
{
    return r->wall_ns ? (double)r->n * 1e9 / (double)r->wall_ns : 0;
}

typedef const char *format_time(struct format_buffer *b, uint64_t time);

// One line of order statistics; times are sorted, n > 0.
static void bench_print_times(const char *name, format_time *format, const uint64_t *t, size_t n)
{
    struct format_buffer min, median, p90, p99, max;
    print_line(name, "%9s %9s %9s %9s %9s", format(&min, t[0]),
               format(&median, stats_percentile(t, n, 50)),
               format(&p90, stats_percentile(t, n, 90)), format(&p99, stats_percentile(t, n, 99)),
               format(&max, t[n - 1]));
}

static void bench_print_text(const struct bench_command *c, const rknnd_server_info *info,
                             const struct bench_result *r)
{
    struct format_buffer b;
    printf("%s on ", c->plan.task.model);
    print_server_line(info);
    printf("\n%zu runs by %u client%s in %s: %s%.1f runs/s\n", r->n, c->plan.clients,
           c->plan.clients == 1 ? "" : "s", format_ns(&b, r->wall_ns),
           r->timing.software ? "machine " : "", per_second(r));
    print_line("", "%9s %9s %9s %9s %9s", "min", "median", "p90", "p99", "max");
    bench_print_times("latency", format_ns, r->latency_ns, r->n);
    bench_print_times("queue", format_us, r->queue_us, r->n);
    bench_print_times(r->timing.software ? "machine run" : "run", format_us, r->run_us, r->n);
    print_estimate(&r->timing, r->estimate_ns);
    timing_print(&r->timing, stdout, "  ");
}

// An NPU has "runs_per_second"; a software NPU the machine's and the chip's estimated ones.
static int bench_print_json(const struct bench_command *c, const rknnd_server_info *info,
                            const struct bench_result *r, struct error *e)
{
    json_t *o =
        json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "model", c->plan.task.model, "server",
                  print_server_json(info), "clients", (json_int_t)c->plan.clients, "runs",
                  (json_int_t)r->n, "seconds", print_json_number((double)r->wall_ns / 1e9),
                  "latency_us", print_percentiles_json(r->latency_ns, r->n, 1e3), "queue_us",
                  print_percentiles_json(r->queue_us, r->n, 1), "timing", timing_json(&r->timing));
    timing_put(&r->timing, o, "run_us", print_percentiles_json(r->run_us, r->n, 1),
               timing_estimate(r->estimate_ns));
    timing_put(&r->timing, o, "runs_per_second", print_json_number(per_second(r)),
               r->estimate_ns ? json_real(1e9 / (double)r->estimate_ns) : json_null());
    return print_json(o, e);
}

// One row. The columns of a software NPU have other titles, so that machine times and estimates are
// not taken for the chip's.
static int print_csv(const struct bench_command *c, const struct bench_result *r, struct error *e)
{
    static const struct table_column columns[] = {
        {.title = "Model"},         {.title = "Clients"},       {.title = "Runs"},
        {.title = "Seconds"},       {.title = "RunsPerSecond"}, {.title = "LatencyMin(us)"},
        {.title = "LatencyMedian"}, {.title = "LatencyP90"},    {.title = "LatencyP99"},
        {.title = "LatencyMax"},    {.title = "QueueMedian"},   {.title = "RunMedian"},
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
        {.title = "LatencyMax"},
        {.title = "QueueMedian"},
        {.title = "MachineRunMedian"},
        {.title = "EstimateRun"},
        {.title = "EstimateChip"},
    };
    static const unsigned percents[] = {0, 50, 90, 99, 100};
    struct table t;
    if (r->timing.software)
        table_init(&t, software_columns, sizeof software_columns / sizeof *software_columns);
    else
        table_init(&t, columns, sizeof columns / sizeof *columns);
    table_cell(&t, "%s", c->plan.task.model);
    table_cell(&t, "%u", c->plan.clients);
    table_cell(&t, "%zu", r->n);
    table_cell(&t, "%.9g", (double)r->wall_ns / 1e9);
    table_cell(&t, "%.9g", per_second(r));
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
        table_cell(&t, "%.9g", (double)stats_percentile(r->latency_ns, r->n, percents[i]) / 1e3);
    table_cell(&t, "%llu", (unsigned long long)stats_percentile(r->queue_us, r->n, 50));
    table_cell(&t, "%llu", (unsigned long long)stats_percentile(r->run_us, r->n, 50));
    if (r->timing.software && r->estimate_ns)
        table_cell(&t, "%.9g", (double)r->estimate_ns / 1e3);
    else if (r->timing.software)
        table_cell(&t, "%s", "");
    if (r->timing.software)
        table_cell(&t, "%s", r->timing.chip);
    int status = table_csv(&t, stdout);
    table_done(&t);
    return status < 0 ? error_no_memory(e, "a table", 0) : 0;
}

// --fail-below and --fail-p99-above. Limits are not judged when the measurement itself failed.
static int judge_limits(const struct bench_command *c, const struct bench_result *r,
                        struct error *e)
{
    double p99_ms = (double)stats_percentile(r->latency_ns, r->n, 99) / 1e6;
    if (per_second(r) < c->fail_below)
        error_set(e, STATUS_FAIL, "%.1f runs/s are fewer than --fail-below %.10g", per_second(r),
                  c->fail_below);
    else if (c->fail_p99_above > 0 && p99_ms > c->fail_p99_above)
        error_set(e, STATUS_FAIL,
                  "the latency's 99th percentile, %.3f ms, is above --fail-p99-above %.10g", p99_ms,
                  c->fail_p99_above);
    else
        return 0;
    return EXIT_GATE;
}

static int show_result(const struct bench_command *c, const rknnd_server_info *info,
                       const struct bench_result *r, struct error *e)
{
    if (c->csv)
        return print_csv(c, r, e);
    if (c->json)
        return bench_print_json(c, info, r, e);
    bench_print_text(c, info, r);
    return 0;
}

// Shows what was measured also after a failure in the middle, which is then still the result: its
// own failure must not be replaced by one of showing.
static int measure_model(const struct bench_command *c, const struct input_set *inputs,
                         struct error *e)
{
    rknnd_server_info info;
    struct bench_result result = {0};
    int r = print_get_server(&info, e);
    interrupt_defer();
    if (r == 0)
        r = bench_run(&c->plan, inputs, &result, e);
    if (r == 0 && result.n == 0)
        r = error_set(e, STATUS_FAIL, "interrupted before the first run");
    if (result.n > 0) {
        struct error ignored;
        int shown = show_result(c, &info, &result, r ? &ignored : e);
        if (r)
            error_prefix(e, "ended after %zu runs", result.n);
        else
            r = shown ? shown : judge_limits(c, &result, e);
    }
    bench_result_done(&result);
    return r;
}

// The model stays open here while clients open it: the file is uploaded once, with its progress
// shown, and the inputs are made once for all clients.
static int open_and_measure(const struct bench_command *c, struct error *e)
{
    struct model model;
    struct input_set inputs = {0};
    int r = task_open(&c->plan.task, 0, &model, e);
    if (r == 0 && c->plan.task.inputs.n)
        r = task_load(&c->plan.task, &model, &inputs, e);
    else if (r == 0)
        r = input_set_random(&inputs, &model, c->seed, e);
    if (r == 0)
        r = measure_model(c, &inputs, e);
    input_set_done(&inputs);
    model_close(&model);
    return r;
}

int cmd_bench(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct bench_command c = {.plan = {.task = TASK_INIT, .clients = 1, .loop = 100, .warmup = 3},
                              .seed = 1};
    int r = parse_options(argc, argv, &c, e);
    if (r == 0)
        r = open_and_measure(&c, e);
    task_done(&c.plan.task);
    return r;
}
