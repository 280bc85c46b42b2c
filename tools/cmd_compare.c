// rknnctl compare: what a model computes, against another file, server or backend.
#include "tools/comparison.h"
#include "tools/rknnctl.h"

struct compare {
    struct comparison_plan plan;
    bool json, csv;
};

static int parse(int argc, char **argv, struct compare *c, struct failure *f)
{
    struct comparison_plan *p = &c->plan;
    const char *with = NULL;
    int first;
    const struct option_row rows[] = {
        {'w', "with", OPTION_TEXT, &with, "URI", "the reference's server", 0, 0},
        TASK_INPUT(&p->task),
        COMPARISON_LIST(p),
        TASK_SHAPE(&p->task),
        TASK_LAYOUT(&p->task),
        COMPARISON_MAP(p),
        COMPARISON_ENTIRE(p),
        COMPARISON_LIMIT(p),
        COMPARISON_DUMP(p),
        {'n', "loop", OPTION_NUMBER, &p->loop, "N", "runs for times (default 10; 0: none)", 0,
         100000},
        {'j', "json", OPTION_FLAG, &c->json, NULL, "print JSON", 0, 0},
        {'C', "csv", OPTION_FLAG, &c->csv, NULL, "print a table for a spreadsheet", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] compare MODEL [REFERENCE] [--with URI] -i FILE…",
        .summary =
            "Compares what each layer of a model computes with what it is in a reference: in\n"
            "another file, on another server, or both. Numbers as of rknnctl accuracy. Then\n"
            "the times of both, measured on made-up inputs.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = options_parse_n(&options, argc, argv, 1, 2, &first, f);
    if (r)
        return r;
    p->task.model = argv[first];
    p->golden = argv[argc - 1];
    p->golden_server = with ? with : p->server;
    if (!with && argc - first == 1)
        return failure_set(f, EXIT_USAGE, "nothing to compare with: give a second file or --with");
    return comparison_set_form(p, c->json, c->csv, f);
}

int cmd_compare(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    struct compare c = {
        .plan = {.task = TASK_INIT, .server = settings->server, .limit = 5, .loop = 10}};
    int r = parse(argc, argv, &c, f);
    if (r == 0)
        r = comparison_run(&c.plan, f);
    text_list_done(&c.plan.map);
    task_done(&c.plan.task);
    return r;
}
