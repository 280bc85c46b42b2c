// rknnctl bench: throughput and latency of a model with one or many clients. bench_run() measures,
// bench_show() shows; this file parses, goes through the numbers of clients, and judges the limits
// for use in CI.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/options/number.h"
#include "tools/format/order_stats.h"
#include "tools/format/output_file.h"
#include "tools/rknnctl.h"
#include "tools/run/bench_show.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"

#define MAX_RUNS    100000000u // of all clients; their times are kept
#define MAX_CLIENTS 1024
#define LOOP        100

struct bench_command {
    struct bench_plan plan;
    double fail_below, fail_p99_above; // runs/s, ms; 0: no matter
    uint32_t clients;                  // 0: not given
    uint32_t from, to, step;           // --concurrency
    bool sweep;                        // that was given
    const char *samples;               // NULL: none
    bool json, csv;
};

// FROM[:TO[:STEP]]
static int set_concurrency(void *target, const char *text, struct error *e)
{
    struct bench_command *c = target;
    uint64_t numbers[3] = {0, 0, 1};
    char copy[64], *rest = copy;
    size_t n = 0;
    bool good = strlen(text) < sizeof copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (const char *part; good && (part = strsep(&rest, ":")); n++)
        good = n < 3 && number_parse(part, 1, MAX_CLIENTS, &numbers[n], NULL) == 0;
    if (n == 1)
        numbers[1] = numbers[0];
    if (!good || numbers[1] < numbers[0])
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not FROM:TO or FROM:TO:STEP with 1 to %d clients", text,
                         MAX_CLIENTS);
    c->from = (uint32_t)numbers[0];
    c->to = (uint32_t)numbers[1];
    c->step = (uint32_t)numbers[2];
    return 0;
}

// Each single time is kept for exact percentiles, hence the limit of runs times clients.
static int check_options(struct bench_command *c, struct error *e)
{
    struct bench_plan *p = &c->plan;
    c->sweep = c->from;
    if (c->sweep && (c->clients || c->fail_below > 0 || c->fail_p99_above > 0))
        return error_set(e, STATUS_PARAM_INVALID,
                         "--concurrency goes through numbers of clients: --clients, --fail-below "
                         "and --fail-p99-above are for one of them");
    if (!c->sweep)
        c->from = c->to = c->clients ? c->clients : 1;
    if (!c->step)
        c->step = 1;
    if (!p->loop)
        p->loop = p->seconds > 0 ? MAX_RUNS / c->to : LOOP;
    if ((uint64_t)p->loop * c->to > MAX_RUNS)
        return error_set(e, STATUS_PARAM_INVALID, "--loop: %u runs of %u clients are more than %u",
                         p->loop, c->to, MAX_RUNS);
    int r = cmd_options_check_form(c->json, c->csv, e);
    return r == 0 && c->samples ? output_file_check(c->samples, e) : r;
}

static int parse_options(int argc, char **argv, struct bench_command *c, struct error *e)
{
    struct bench_plan *p = &c->plan;
    const struct option_row rows[] = {
        OPTIONS_LOOP(&p->loop, "runs of each client (default 100)", 1, 10000000),
        OPTIONS_CLIENTS(&c->clients, MAX_CLIENTS),
        {0, "concurrency", OPTION_CALL, c, "RANGE", "measure FROM:TO[:STEP] clients in turn", 0, 0,
         set_concurrency},
        {0, "duration", OPTION_REAL, &p->seconds, "SECONDS",
         "begin runs for so long, instead of --loop", 0, 1000000, NULL},
        {0, "rate", OPTION_REAL, &p->rate, "FPS", "ask for so many runs/s at random times", 0,
         1000000, NULL},
        {0, "samples", OPTION_TEXT, &c->samples, "FILE", "write the times of each run (CSV)", 0, 0,
         NULL},
        OPTIONS_WARMUP(&p->warmup),
        TASK_INPUTS(&p->task),
        TASK_LOADING(&p->task),
        OPTIONS_SEED(&p->seed),
        {0, "float", OPTION_FLAG, &p->want_float, NULL, "get outputs as float32", 0, 0, NULL},
        {0, "fail-below", OPTION_REAL, &c->fail_below, "FPS", "fail (6) with fewer runs/s", 0,
         1000000000, NULL},
        {0, "fail-p99-above", OPTION_REAL, &c->fail_p99_above, "MS",
         "fail (6) with a larger latency", 0, 1000000000, NULL},
        OPTIONS_JSON(&c->json),
        OPTIONS_CSV(&c->csv),
    };
    const struct cmd_options options = {
        .usage = "bench MODEL [--loop N | --duration SECONDS] [--clients N]",
        .summary =
            "Measures a model: each client has a context and a thread of its own, and sets\n"
            "the inputs, runs and gets the outputs again and again. Without -i the inputs are\n"
            "made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, e);
    return r ? r : check_options(c, e);
}

// --fail-below and --fail-p99-above. Limits are not judged when the measurement itself failed.
static int judge_limits(const struct bench_command *c, const struct bench_result *r,
                        struct error *e)
{
    double p99_ms = (double)stats_percentile(r->latency_ns, r->n, 99) / 1e6;
    if (bench_per_second(r) < c->fail_below)
        error_set(e, STATUS_FAIL, "%.1f runs/s are fewer than --fail-below %.10g",
                  bench_per_second(r), c->fail_below);
    else if (c->fail_p99_above > 0 && p99_ms > c->fail_p99_above)
        error_set(e, STATUS_FAIL,
                  "the latency's 99th percentile, %.3f ms, is above --fail-p99-above %.10g", p99_ms,
                  c->fail_p99_above);
    else
        return 0;
    return EXIT_GATE;
}

// One number of clients after the other. What was measured counts also after a failure.
static int measure_points(const struct bench_command *c, const struct input_set *inputs,
                          struct bench_point *points, size_t *ret_n, struct error *e)
{
    int r = 0;
    for (uint32_t clients = c->from; clients <= c->to && r == 0 && !interrupt_seen();
         clients += c->step) {
        struct bench_point *p = &points[*ret_n];
        struct bench_plan plan = c->plan;
        plan.clients = p->clients = clients;
        r = bench_run(&plan, inputs, &p->result, e);
        if (p->result.n > 0)
            ++*ret_n;
        else
            bench_result_done(&p->result);
    }
    return r;
}

static int show_points(const struct bench_command *c, const struct bench_point *points, size_t n,
                       const rknnd_server_info *info, struct error *e)
{
    enum bench_form form = c->json ? BENCH_JSON : c->csv ? BENCH_CSV : BENCH_TEXT;
    int r = bench_show(&c->plan, info, points, n, c->sweep, form, e);
    return r == 0 && c->samples ? bench_write_samples(c->samples, points, n, e) : r;
}

// Shows what was measured also after a failure in the middle, which is then still the result: its
// own failure must not be replaced by one of showing.
static int measure_model(const struct bench_command *c, const struct input_set *inputs,
                         struct error *e)
{
    rknnd_server_info info;
    size_t n = 0, room = (c->to - c->from) / c->step + 1;
    cleanup(free_p) struct bench_point *points = calloc(room, sizeof *points);
    if (!points)
        return error_no_memory(e, "measurements", room);
    int r = print_get_server(&info, e);
    interrupt_defer();
    if (r == 0)
        r = measure_points(c, inputs, points, &n, e);
    if (r == 0 && n == 0)
        r = error_set(e, STATUS_FAIL, "%s",
                      interrupt_seen() ? "interrupted before the first run"
                                       : "no run began in that time");
    if (n > 0) {
        struct error ignored;
        int shown = show_points(c, points, n, &info, r ? &ignored : e);
        if (r)
            error_prefix(e, "ended after %zu runs", points[n - 1].result.n);
        else
            r = shown ? shown : judge_limits(c, &points[0].result, e);
    }
    for (size_t i = 0; i < n; i++)
        bench_result_done(&points[i].result);
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
        r = input_set_random(&inputs, &model, c->plan.seed, e);
    if (r == 0)
        r = measure_model(c, &inputs, e);
    input_set_done(&inputs);
    model_close(&model);
    return r;
}

int cmd_bench(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct bench_command c = {.plan = {.task = TASK_INIT, .warmup = 3, .seed = 1}};
    int r = parse_options(argc, argv, &c, e);
    if (r == 0)
        r = open_and_measure(&c, e);
    task_done(&c.plan.task);
    return r;
}
