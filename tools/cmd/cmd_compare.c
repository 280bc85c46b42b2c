// rknnctl compare: compares each layer of a model with another file, server or backend, and the
// times of both. Like accuracy, but the reference need not be a float model.
#include "tools/compare/comparison.h"
#include "tools/rknnctl.h"

struct compare {
    struct comparison_plan plan;
    bool json, csv;
};

// One argument: the same file on two servers (--with); two: two files, on one server or two.
// argv[argc - 1] is the reference in either case.
static int parse_options(const struct settings *settings, int argc, char **argv, struct compare *c,
                         struct error *e)
{
    struct comparison_plan *p = &c->plan;
    const char *with = NULL;
    int first;
    const struct option_row rows[] = {
        {0, "with", OPTION_TEXT, &with, "URI", "the reference's server", 0, 0, NULL},
        TASK_INPUTS(&p->task),
        COMPARISON_LIST(p),
        TASK_LOADING(&p->task),
        COMPARISON_MAP(p),
        COMPARISON_ENTIRE(p),
        COMPARISON_LIMIT(p),
        COMPARISON_FAIL_ABOVE(p),
        COMPARISON_DUMP(p),
        OPTIONS_LOOP(&p->loop, "runs for times (default 10; 0: none)", 0, 100000),
        OPTIONS_WARMUP(&p->warmup),
        OPTIONS_SEED(&p->seed),
        OPTIONS_JSON(&c->json),
        OPTIONS_CSV(&c->csv),
    };
    const struct cmd_options options = {
        .usage = "compare MODEL [REFERENCE] [--with URI] -i FILE…",
        .summary =
            "Compares what each layer of a model computes with what it is in a reference: in\n"
            "another file, on another server, or both. Numbers as of rknnctl accuracy. Then\n"
            "the times of both, measured on made-up inputs.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = cmd_options_parse_n(&options, argc, argv, 1, 2, &first, e);
    if (r)
        return r;
    p->task.model = argv[first];
    p->golden = argv[argc - 1];
    p->golden_core_mask = p->task.core_mask;
    p->server = settings->server;
    p->golden_server = with ? with : p->server;
    if (!with && argc - first == 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "nothing to compare with: give a second file or --with");
    return comparison_set_form(p, c->json, c->csv, e);
}

// Times are measured by default here (loop 10), unlike with accuracy, whose reference is a float
// model on another device.
int cmd_compare(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct compare c = {.plan = COMPARISON_PLAN_INIT};
    c.plan.loop = 10;
    int r = parse_options(settings, argc, argv, &c, e);
    if (r == 0)
        r = comparison_run(&c.plan, e);
    text_list_done(&c.plan.map);
    task_done(&c.plan.task);
    return r;
}
