// rknnctl run: a model on inputs from files.
#include "tools/rknnctl.h"
#include "tools/run.h"

static int parse(int argc, char **argv, struct run_plan *p, struct failure *f)
{
    const struct option_row rows[] = {
        TASK_INPUT(&p->task),
        TASK_SHAPE(&p->task),
        TASK_ROW(&p->task),
        {'o', "output", OPTION_TEXT, &p->folder, "DIR", "write each output there as out<i>.npy", 0,
         0},
        TASK_LAYOUT(&p->task),
        {'r', "raw", OPTION_FLAG, &p->raw, NULL, "write the model's own type, not float32", 0, 0},
        {'n', "loop", OPTION_NUMBER, &p->loop, "N", "run N times (default 1)", 1, 10000000},
        {'t', "top", OPTION_NUMBER, &p->top, "N", "largest values shown (default 5)", 0,
         RUN_MAX_TOP},
        {'p', "perf", OPTION_FLAG, &p->perf, NULL, "show times of layers, and memory", 0, 0},
        TASK_CORES(&p->task),
        {'j', "json", OPTION_FLAG, &p->json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] run MODEL -i FILE… [-o DIR]",
        .summary =
            "Runs a model once for each --loop and shows its outputs and times. Give one -i\n"
            "for each input, in the model's order or by name or number. An array's type is\n"
            "the input's type; a picture is RGB or gray, as the model has channels, and has\n"
            "the model's size.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    return task_parse(&p->task, &options, argc, argv, f);
}

static int run_and_show(const struct run_plan *plan, struct failure *f)
{
    struct run_state state;
    int r = run_execute(&state, plan, f);
    if (r == 0)
        r = plan->json ? run_result_print_json(&state.result, f)
                       : run_result_print(&state.result, f);
    run_done(&state);
    return r;
}

int cmd_run(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct run_plan plan = {.task = TASK_INIT, .loop = 1, .top = 5};
    int r = parse(argc, argv, &plan, f);
    if (r == 0)
        r = run_and_show(&plan, f);
    task_done(&plan.task);
    return r;
}
