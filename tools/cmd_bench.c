// rknnctl bench: throughput and latency of a model.
#include <stdio.h>

#include "tools/bench.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/rknnctl.h"

#define MAX_RUNS 100000000u // of all clients; their times are kept

struct bench_command {
    struct bench_plan plan;
    uint32_t seed;
    bool json;
};

static int parse(int argc, char **argv, struct bench_command *c, struct failure *f)
{
    struct bench_plan *p = &c->plan;
    const struct option_row rows[] = {
        {'n', "loop", OPTION_NUMBER, &p->loop, "N", "runs of each client (default 100)", 1,
         10000000},
        {'C', "clients", OPTION_NUMBER, &p->clients, "N", "clients at the same time (default 1)", 1,
         1024},
        {'w', "warmup", OPTION_NUMBER, &p->warmup, "N", "runs before measuring (default 3)", 0,
         1000000},
        TASK_INPUT(&p->task),
        TASK_SHAPE(&p->task),
        TASK_ROW(&p->task),
        TASK_LAYOUT(&p->task),
        {'S', "seed", OPTION_NUMBER, &c->seed, "N", "of made-up inputs (default 1)", 0, UINT32_MAX},
        {'f', "float", OPTION_FLAG, &p->want_float, NULL, "get outputs as float32", 0, 0},
        TASK_CORES(&p->task),
        {'j', "json", OPTION_FLAG, &c->json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] bench MODEL [--loop N] [--clients N]",
        .summary =
            "Measures a model: each client has a context and a thread of its own, and sets\n"
            "the inputs, runs and gets the outputs again and again. Without -i the inputs are\n"
            "made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, f);
    if (r == 0 && (uint64_t)p->loop * p->clients > MAX_RUNS)
        r = failure_set(f, EXIT_USAGE, "--loop: %u runs of %u clients are more than %u", p->loop,
                        p->clients, MAX_RUNS);
    return r;
}

static double per_second(const struct bench_result *r)
{
    return r->wall_ns ? (double)r->n * 1e9 / (double)r->wall_ns : 0;
}

typedef const char *format_time(struct format_buffer *b, uint64_t time);

static void print_times(const char *name, format_time *format, const uint64_t *t, size_t n)
{
    struct format_buffer min, median, p90, p99, max;
    report_line(name, "%9s %9s %9s %9s %9s", format(&min, t[0]),
                format(&median, stats_percentile(t, n, 50)),
                format(&p90, stats_percentile(t, n, 90)), format(&p99, stats_percentile(t, n, 99)),
                format(&max, t[n - 1]));
}

static void print_text(const struct bench_command *c, const rknnd_server_info *info,
                       const struct bench_result *r)
{
    struct format_buffer b;
    printf("%s on ", c->plan.task.model);
    report_server_line(info);
    printf("\n%zu runs by %u client%s in %s: %.1f runs/s\n", r->n, c->plan.clients,
           c->plan.clients == 1 ? "" : "s", format_ns(&b, r->wall_ns), per_second(r));
    report_line("", "%9s %9s %9s %9s %9s", "min", "median", "p90", "p99", "max");
    print_times("latency", format_ns, r->latency_ns, r->n);
    print_times("queue", format_us, r->queue_us, r->n);
    print_times("run", format_us, r->run_us, r->n);
}

static int print_json(const struct bench_command *c, const rknnd_server_info *info,
                      const struct bench_result *r, struct failure *f)
{
    json_t *o =
        json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "model", c->plan.task.model,
                  "server", report_server_json(info), "clients", (json_int_t)c->plan.clients,
                  "runs", (json_int_t)r->n, "seconds", report_number((double)r->wall_ns / 1e9),
                  "runs_per_second", report_number(per_second(r)), "latency_us",
                  report_percentiles_json(r->latency_ns, r->n, 1e3), "queue_us",
                  report_percentiles_json(r->queue_us, r->n, 1), "run_us",
                  report_percentiles_json(r->run_us, r->n, 1));
    return report_json(o, f);
}

static int measure(const struct bench_command *c, const struct input_set *inputs, struct failure *f)
{
    rknnd_server_info info;
    struct bench_result result = {0};
    int r = report_get_server(&info, f);
    interrupt_defer();
    if (r == 0)
        r = bench_run(&c->plan, inputs, &result, f);
    if (r == 0 && result.n == 0)
        r = failure_set(f, EXIT_RUNTIME, "interrupted before the first run");
    if (r == 0 && c->json)
        r = print_json(c, &info, &result, f);
    else if (r == 0)
        print_text(c, &info, &result);
    bench_result_done(&result);
    return r;
}

// The model is open here too while it is measured: one upload, with its progress, and inputs that
// are made once.
static int open_and_measure(const struct bench_command *c, struct failure *f)
{
    struct model model;
    struct input_set inputs = {0};
    int r = task_open(&c->plan.task, 0, &model, f);
    if (r == 0 && c->plan.task.inputs.n)
        r = task_load(&c->plan.task, &model, &inputs, f);
    else if (r == 0)
        r = input_set_random(&inputs, &model, c->seed, f);
    if (r == 0)
        r = measure(c, &inputs, f);
    input_set_done(&inputs);
    model_close(&model);
    return r;
}

int cmd_bench(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct bench_command c = {.plan = {.task = TASK_INIT, .clients = 1, .loop = 100, .warmup = 3},
                              .seed = 1};
    int r = parse(argc, argv, &c, f);
    if (r == 0)
        r = open_and_measure(&c, f);
    task_done(&c.plan.task);
    return r;
}
