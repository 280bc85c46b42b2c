// rknnctl bench: throughput and latency of a model with one or many clients. bench_run() measures,
// bench_show() shows; this file parses, goes through the numbers of clients, and judges the limits
// for use in CI.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "base/options/number.h"
#include "tools/bench/bench_show.h"
#include "tools/format/order_stats.h"
#include "tools/rknnctl.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/view/page.h"

#define MAX_RUNS    100000000u // of all clients; their times are kept
#define MAX_CLIENTS 1024
#define LOOP        100

struct bench_command {
    struct bench_plan plan;
    double fail_below, fail_p99_above; // runs/s, ms; 0: no matter
    uint32_t clients;                  // 0: not given
    uint32_t from, to, step;           // --concurrency
    bool sweep;                        // that was given
    const char *samples, *report;      // NULL: none
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
    if (good && numbers[1] < numbers[0])
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" goes down from %u clients to %u: begin with the fewest", text,
                         (unsigned)numbers[0], (unsigned)numbers[1]);
    if (!good)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not FROM, FROM:TO or FROM:TO:STEP with 1 to %d clients", text,
                         MAX_CLIENTS);
    c->from = (uint32_t)numbers[0];
    c->to = (uint32_t)numbers[1];
    c->step = (uint32_t)numbers[2];
    return 0;
}

// What is not given is -1: a limit or a rate of 0 is a mistake, not none.
static int check_amounts(struct bench_command *c, struct error *e)
{
    const struct {
        const char *name;
        double *value;
    } amounts[] = {{"--duration", &c->plan.seconds},
                   {"--rate", &c->plan.rate},
                   {"--fail-below", &c->fail_below},
                   {"--fail-p99-above", &c->fail_p99_above}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        if (!(*amounts[i].value < 0 || *amounts[i].value > 0))
            return error_set(e, STATUS_PARAM_INVALID, "%s is to be more than 0", amounts[i].name);
        if (*amounts[i].value < 0)
            *amounts[i].value = 0;
    }
    return c->plan.seconds > 0 && c->plan.loop
               ? error_set(e, STATUS_PARAM_INVALID, "--duration is in place of --loop: give one")
               : 0;
}

// Each single time is kept for exact percentiles, hence the limit of runs times clients.
static int check_options(struct bench_command *c, struct error *e)
{
    struct bench_plan *p = &c->plan;
    int r = check_amounts(c, e);
    if (r < 0)
        return r;
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
        p->loop = p->seconds > 0 ? MAX_RUNS / (c->to * p->n_models) : LOOP;
    if ((uint64_t)p->loop * c->to * p->n_models > MAX_RUNS)
        return error_set(e, STATUS_PARAM_INVALID, "--loop: %u runs of %u clients are more than %u",
                         p->loop, c->to * p->n_models, MAX_RUNS);
    if (p->n_models > 1 && p->task.inputs.n)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--input is for one model; with several their inputs are made up");
    if (c->samples && c->report && strcmp(c->samples, c->report) == 0)
        return error_set(e, STATUS_PARAM_INVALID, "--samples and --report are the same file, %s",
                         c->samples);
    r = cmd_options_check_form(c->json, c->csv, e);
    if (r == 0 && c->samples)
        r = output_file_check(c->samples, e);
    return r == 0 && c->report ? output_file_check(c->report, e) : r;
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
        {0, "rate", OPTION_REAL, &p->rate, "FPS", "ask each model for runs/s at random times", 0,
         1000000, NULL},
        {0, "samples", OPTION_TEXT, &c->samples, "FILE",
         "write the times of each run (CSV; .json: JSON)", 0, 0, NULL},
        {0, "report", OPTION_TEXT, &c->report, "FILE", "write a page for a browser", 0, 0, NULL},
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
        .usage = "bench MODEL... [--loop N|--duration SECONDS] [--clients N]",
        .summary =
            "Measures a model, or several at the same time: each client has a context and a\n"
            "thread of its own, and again and again sets the inputs, runs and gets the\n"
            "outputs. Without -i the inputs are made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 1, BENCH_MODELS, &first, e);
    for (p->n_models = 0; r == 0 && first + (int)p->n_models < argc; p->n_models++)
        p->models[p->n_models].path = argv[first + (int)p->n_models];
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

static void point_done(const struct bench_command *c, struct bench_point *p)
{
    for (uint32_t i = 0; p->each && i < c->plan.n_models; i++)
        bench_result_done(&p->each[i]);
    free(p->each);
    bench_result_done(&p->result);
    p->each = NULL;
}

// One number of clients after the other. What was measured counts also after a failure.
static int measure_points(const struct bench_command *c, struct bench_point *points, size_t *ret_n,
                          struct error *e)
{
    int r = 0;
    for (uint32_t clients = c->from; clients <= c->to && r == 0 && !interrupt_seen();
         clients += c->step) {
        struct bench_point *p = &points[*ret_n];
        struct bench_plan plan = c->plan;
        plan.clients = p->clients = clients;
        if (plan.n_models > 1 && !(p->each = calloc(plan.n_models, sizeof *p->each)))
            return error_no_memory(e, "measurements", plan.n_models);
        r = bench_run(&plan, &p->result, p->each, e);
        if (p->result.n > 0)
            ++*ret_n;
        else
            point_done(c, p);
    }
    return r;
}

static int write_report(const struct bench_command *c, const struct bench_point *points, size_t n,
                        const rknnd_server_info *info, struct error *e)
{
    cleanup(output_file_drop) struct output_file file = {0};
    json_t *bench = bench_json(&c->plan, info, points, n);
    json_t *data =
        json_pack("{s:o, s:o, s:s, s:o, s:o}", "model", print_json_text(c->plan.models[0].path),
                  "bench", bench, "tool", rknnd_version(), "date", print_json_date(), "server",
                  print_server_json(info));
    int r = data ? output_file_open(&file, c->report, e) : error_no_memory(e, "the page", 0);
    if (r == 0 && page_write(data, file.stream) < 0)
        r = error_no_memory(e, "the page", 0);
    json_decref(data);
    return r < 0 ? r : output_file_close(&file, e);
}

// Each goes its own way, whatever became of those before it: what took hours to measure is not lost
// with the disk of one of them. The first failure is told.
static int show_points(const struct bench_command *c, const struct bench_point *points, size_t n,
                       const rknnd_server_info *info, struct error *e)
{
    enum bench_form form = c->json ? BENCH_JSON : c->csv ? BENCH_CSV : BENCH_TEXT;
    struct error samples_failed, report_failed;
    int samples = c->samples ? bench_write_samples(c->samples, points, n, &samples_failed) : 0;
    int report = c->report ? write_report(c, points, n, info, &report_failed) : 0;
    int r = bench_show(&c->plan, info, points, n, c->sweep, form, e);
    if (r == 0 && samples < 0)
        *e = samples_failed;
    else if (r == 0 && report < 0)
        *e = report_failed;
    return r < 0 ? r : samples < 0 ? samples : report;
}

// Shows what was measured also after a failure in the middle, which is then still the result: its
// own failure must not be replaced by one of showing.
static int measure_models(const struct bench_command *c, struct error *e)
{
    rknnd_server_info info;
    size_t n = 0, room = (c->to - c->from) / c->step + 1;
    cleanup(free_p) struct bench_point *points = calloc(room, sizeof *points);
    if (!points)
        return error_no_memory(e, "measurements", room);
    int r = print_get_server(&info, e);
    interrupt_defer();
    if (r == 0)
        r = measure_points(c, points, &n, e);
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
        point_done(c, &points[i]);
    return r;
}

static int open_model(struct bench_command *c, struct bench_model *of, struct model *model,
                      struct error *e)
{
    struct task task = c->plan.task;
    task.model = of->path;
    int r = task_open(&task, 0, model, e);
    if (r == 0 && task.inputs.n)
        r = task_load(&task, model, &of->inputs, e);
    else if (r == 0)
        r = input_set_random(&of->inputs, model, c->plan.seed, e);
    return r;
}

// Models stay open here while clients open them: a file is uploaded once, with its progress shown,
// and the inputs are made once for all clients.
static int open_and_measure(struct bench_command *c, struct error *e)
{
    struct model models[BENCH_MODELS];
    uint32_t n = 0;
    int r = 0;
    while (n < c->plan.n_models && r == 0) {
        r = open_model(c, &c->plan.models[n], &models[n], e);
        n++;
    }
    if (r == 0)
        r = measure_models(c, e);
    while (n-- > 0) {
        input_set_done(&c->plan.models[n].inputs);
        model_close(&models[n]);
    }
    return r;
}

int cmd_bench(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct bench_command c = {
        .plan = {.task = TASK_INIT, .warmup = 3, .seed = 1, .seconds = -1, .rate = -1},
        .fail_below = -1,
        .fail_p99_above = -1};
    int r = parse_options(argc, argv, &c, e);
    if (r == 0)
        r = open_and_measure(&c, e);
    task_done(&c.plan.task);
    return r;
}
