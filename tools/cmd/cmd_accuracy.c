// rknnctl accuracy: compares each layer of a converted model with the float model it came from,
// which runs on the software NPU here unless --golden-server says otherwise. All of the work is
// comparison_run()'s.
#include "tools/compare/comparison.h"
#include "tools/rknnctl.h"

struct accuracy {
    struct comparison_plan plan;
    bool json, csv;
};

static int parse_options(int argc, char **argv, struct accuracy *a, struct error *e)
{
    struct comparison_plan *p = &a->plan;
    const struct option_row rows[] = {
        COMPARISON_GOLDEN(p),   TASK_INPUTS(&p->task),  COMPARISON_LIST(p),
        TASK_LOADING(&p->task), COMPARISON_MAP(p),      COMPARISON_GOLDEN_SERVER(p),
        COMPARISON_ENTIRE(p),   COMPARISON_LIMIT(p),    COMPARISON_FAIL_ABOVE(p),
        COMPARISON_DUMP(p),     OPTIONS_JSON(&a->json), OPTIONS_CSV(&a->csv),
    };
    const struct cmd_options options = {
        .usage = "accuracy MODEL --golden MODEL.onnx -i FILE…",
        .summary =
            "Compares what each layer of a model computes with what the float model does, run\n"
            "here: entire, with the errors of all layers before it, and single, on the float\n"
            "model's numbers. cos: of the angle between both; euc: length of the difference;\n"
            "off: the same, in % of the golden length; gain: how much larger on the whole.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, e);
    if (r == 0 && !p->golden)
        r = error_set(e, STATUS_PARAM_INVALID, "no golden model: give the float one with --golden");
    return r ? r : comparison_set_form(p, a->json, a->csv, e);
}

// The server of --server is known only after parsing, hence its late assignment.
int cmd_accuracy(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct accuracy a = {.plan = COMPARISON_PLAN_INIT};
    a.plan.golden_server = "sim:";
    a.plan.float_golden = true;
    int r = parse_options(argc, argv, &a, e);
    a.plan.server = settings->server;
    if (r == 0)
        r = comparison_run(&a.plan, e);
    text_list_done(&a.plan.map);
    task_done(&a.plan.task);
    return r;
}
