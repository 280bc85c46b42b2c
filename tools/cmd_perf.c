// rknnctl perf: where a model's time goes.
#include "tools/profile.h"
#include "tools/report.h"
#include "tools/rknnctl.h"

struct perf {
    struct profile_plan plan;
    bool json, csv;
};

static int parse(int argc, char **argv, struct perf *p, struct failure *f)
{
    struct profile_plan *plan = &p->plan;
    const struct option_row rows[] = {
        {'n', "loop", OPTION_NUMBER, &plan->loop, "N", "runs (default 10)", 1, 100000},
        {'w', "warmup", OPTION_NUMBER, &plan->warmup, "N", "runs before measuring (default 3)", 0,
         1000000},
        TASK_INPUT(&plan->task),
        TASK_SHAPE(&plan->task),
        TASK_ROW(&plan->task),
        TASK_LAYOUT(&plan->task),
        {'S', "seed", OPTION_NUMBER, &plan->seed, "N", "of made-up inputs (default 1)", 0,
         UINT32_MAX},
        TASK_CORES(&plan->task),
        {'j', "json", OPTION_FLAG, &p->json, NULL, "print JSON", 0, 0},
        {'C', "csv", OPTION_FLAG, &p->csv, NULL, "print the table of layers for a spreadsheet", 0,
         0},
    };
    const struct options options = {
        .usage = "[--server URI] perf MODEL [--loop N]",
        .summary =
            "Runs a model and shows where its time goes: each layer's, each operator's, all\n"
            "of it. Without -i the inputs are made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&plan->task, &options, argc, argv, f);
    if (r == 0 && p->json && p->csv)
        r = failure_set(f, EXIT_USAGE, "--json and --csv are two forms: ask for one");
    return r;
}

static int show(const struct perf *p, const struct profile *profile, struct failure *f)
{
    if (p->csv) {
        layers_csv(&profile->layers, stdout);
        return 0;
    }
    if (p->json) {
        json_t *o = profile_json(profile);
        json_object_set_new(o, "model", json_string(p->plan.task.model));
        json_object_set_new(o, "server", report_server_json(&profile->server));
        return report_json(o, f);
    }
    printf("%s on ", p->plan.task.model);
    report_server_line(&profile->server);
    putchar('\n');
    return profile_print(profile, f);
}

int cmd_perf(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct perf p = {.plan = {.task = TASK_INIT, .loop = 10, .warmup = 3, .seed = 1}};
    struct profile profile = {0};
    int r = parse(argc, argv, &p, f);
    if (r == 0)
        r = profile_measure(&profile, &p.plan, f);
    if (r == 0)
        r = show(&p, &profile, f);
    profile_done(&profile);
    task_done(&p.plan.task);
    return r;
}
