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
static int parse_options(int argc, char **argv, struct perf *p, struct error *e)
{
    struct profile_plan *plan = &p->plan;
    const struct option_row rows[] = {
        OPTIONS_LOOP(&plan->loop, "runs (default 10)", 1, 100000),
        OPTIONS_WARMUP(&plan->warmup),
        TASK_INPUTS(&plan->task),
        TASK_LOADING(&plan->task),
        OPTIONS_SEED(&plan->seed),
        {0, "sort", OPTION_TEXT, &plan->sort, "BY",
         "by time, estimate, macs, usage, bytes, op or name", 0, 0, NULL},
        OPTIONS_JSON(&p->json),
        OPTIONS_CSV(&p->csv),
    };
    const struct cmd_options options = {
        .usage = "perf MODEL [--loop N]",
        .summary =
            "Runs a model and shows where its time goes: each layer's, each operator's, all\n"
            "of it. Without -i the inputs are made up. Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&plan->task, &options, argc, argv, e);
    if (r == 0 && plan->sort)
        r = layers_check_sort(plan->sort, e);
    return r ? r : cmd_options_check_form(p->json, p->csv, e);
}

// CSV has the layers only; JSON and text also the totals and clocks.
static int show_profile(const struct perf *p, const struct profile *profile, struct error *e)
{
    if (p->csv) {
        layers_csv(&profile->layers, stdout);
        return 0;
    }
    if (p->json) {
        json_t *o = profile_json(profile);
        json_object_set_new(o, "model", print_json_text(p->plan.task.model));
        json_object_set_new(o, "server", print_server_json(&profile->server));
        return print_json(o, e);
    }
    printf("%s on ", p->plan.task.model);
    print_server_line(&profile->server);
    putchar('\n');
    return profile_print(profile, e);
}

// After a failure in the middle the runs before it are shown; the failure stays the result.
int cmd_perf(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct perf p = {.plan = {.task = TASK_INIT, .loop = 10, .warmup = 3, .seed = 1}};
    struct profile profile = {0};
    int r = parse_options(argc, argv, &p, e);
    if (r == 0)
        r = profile_measure(&profile, &p.plan, e);
    struct error ignored;
    if (r == 0)
        r = show_profile(&p, &profile, e);
    else if (profile.n_runs > 0 && show_profile(&p, &profile, &ignored) == 0)
        error_prefix(e, "ended after %u run%s", profile.n_runs, profile.n_runs == 1 ? "" : "s");
    profile_done(&profile);
    task_done(&p.plan.task);
    return r;
}
