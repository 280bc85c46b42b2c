// rknnctl perf: where a model's time goes, by layer and by operator. profile_measure() runs it,
// profile_print() and layers_csv() show it.
#include "tools/rknnctl.h"
#include "tools/run/measured.h"
#include "tools/ui/print.h"

struct perf {
    struct profile_plan plan;
    bool json, csv;
};

// --sort is checked before the model is measured.
static int parse_options(int argc, char **argv, struct perf *p, struct failure *f)
{
    struct profile_plan *plan = &p->plan;
    const struct option_row rows[] = {
        OPTIONS_LOOP(&plan->loop, "runs (default 10)", 1, 100000),
        OPTIONS_WARMUP(&plan->warmup),
        TASK_INPUTS(&plan->task),
        TASK_LOADING(&plan->task),
        OPTIONS_SEED(&plan->seed),
        {0, "sort", OPTION_TEXT, &plan->sort, "BY",
         "by time, estimate, macs, usage, bytes, op or name", 0, 0},
        OPTIONS_JSON(&p->json),
        OPTIONS_CSV(&p->csv),
    };
    const struct options options = {
        .usage = "perf MODEL [--loop N]",
        .summary =
            "Runs a model and shows where its time goes: each layer's, each operator's, all\n"
            "of it. Without -i the inputs are made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&plan->task, &options, argc, argv, f);
    if (r == 0 && plan->sort)
        r = layers_check_sort(plan->sort, f);
    return r ? r : options_check_form(p->json, p->csv, f);
}

// CSV has the layers only; JSON and text also the totals and clocks.
static int show_profile(const struct perf *p, const struct profile *profile, struct failure *f)
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

// After a failure in the middle the runs before it are shown; the failure stays the result.
int cmd_perf(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct perf p = {.plan = {.task = TASK_INIT, .loop = 10, .warmup = 3, .seed = 1}};
    struct profile profile = {0};
    int r = parse_options(argc, argv, &p, f);
    if (r == 0)
        r = profile_measure(&profile, &p.plan, f);
    struct failure ignored;
    if (r == 0)
        r = show_profile(&p, &profile, f);
    else if (profile.n_runs > 0 && show_profile(&p, &profile, &ignored) == 0)
        failure_prefix(f, "ended after %u run%s", profile.n_runs, profile.n_runs == 1 ? "" : "s");
    profile_done(&profile);
    task_done(&p.plan.task);
    return r;
}
