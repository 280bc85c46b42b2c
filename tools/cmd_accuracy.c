// rknnctl accuracy: what a converted model computes, against the float model.
#include "tools/comparison.h"
#include "tools/rknnctl.h"

struct accuracy {
    struct comparison_plan plan;
    bool json, csv;
};

static int parse(int argc, char **argv, struct accuracy *a, struct failure *f)
{
    struct comparison_plan *p = &a->plan;
    const struct option_row rows[] = {
        {'g', "golden", OPTION_TEXT, &p->golden, "MODEL", "the float model, mostly .onnx", 0, 0},
        TASK_INPUT(&p->task),
        COMPARISON_LIST(p),
        TASK_SHAPE(&p->task),
        TASK_LAYOUT(&p->task),
        COMPARISON_MAP(p),
        {'G', "golden-server", OPTION_TEXT, &p->golden_server, "URI", "that runs it (default sim:)",
         0, 0},
        COMPARISON_ENTIRE(p),
        COMPARISON_LIMIT(p),
        COMPARISON_DUMP(p),
        {'j', "json", OPTION_FLAG, &a->json, NULL, "print JSON", 0, 0},
        {'C', "csv", OPTION_FLAG, &a->csv, NULL, "print a table for a spreadsheet", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] accuracy MODEL --golden MODEL.onnx -i FILE…",
        .summary =
            "Compares what each layer of a model computes with what the float model does, run\n"
            "here: entire, with the errors of all layers before it, and single, on the float\n"
            "model's numbers. cos: of the angle between both; euc: length of the difference;\n"
            "off: the same, in % of the golden length; gain: how much larger on the whole.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, f);
    if (r == 0 && !p->golden)
        r = failure_set(f, EXIT_USAGE, "no golden model: give the float one with --golden");
    return r ? r : comparison_set_form(p, a->json, a->csv, f);
}

int cmd_accuracy(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    struct accuracy a = {
        .plan = {
            .task = TASK_INIT, .server = settings->server, .golden_server = "sim:", .limit = 5}};
    int r = parse(argc, argv, &a, f);
    if (r == 0)
        r = comparison_run(&a.plan, f);
    text_list_done(&a.plan.map);
    task_done(&a.plan.task);
    return r;
}
