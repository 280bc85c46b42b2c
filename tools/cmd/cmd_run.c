// rknnctl run: runs a model on inputs from files and shows or writes its outputs. run_execute()
// does the work; the result is printed as text or JSON.
#include "tools/rknnctl.h"
#include "tools/run/run_model.h"

static int parse_options(int argc, char **argv, struct run_plan *p, struct error *e)
{
    const struct option_row rows[] = {
        TASK_INPUTS(&p->task),
        TASK_LOADING(&p->task),
        OPTIONS_OUTPUT(&p->folder, "DIR", "write each output there as out<i>.npy"),
        OPTIONS_RAW(&p->raw, "write the model's own type, not float32"),
        OPTIONS_LOOP(&p->loop, "run N times (default 1)", 1, 10000000),
        {'t', "top", OPTION_NUMBER, &p->top, "N", "largest values shown (default 5)", 0,
         RUN_MAX_TOP, NULL},
        {'p', "perf", OPTION_FLAG, &p->perf, NULL, "show times of layers, and memory", 0, 0, NULL},
        OPTIONS_JSON(&p->json),
    };
    const struct cmd_options options = {
        .usage = "run MODEL -i FILE… [-o DIR]",
        .summary =
            "Runs a model once for each --loop and shows its outputs and times. Give one -i\n"
            "for each input, in the model's order or by name or number. An array's type is\n"
            "the input's type; a picture is RGB or gray, as the model has channels, and needs\n"
            "--fit letterbox, stretch or crop if it has another size than the model.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    return task_parse(&p->task, &options, argc, argv, e);
}

// Unlike perf and bench it shows nothing after a failure: outputs of a failed run mean nothing.
static int run_and_show(const struct run_plan *plan, struct error *e)
{
    struct run_state state;
    int r = run_execute(&state, plan, e);
    if (r == 0)
        r = plan->json ? run_result_print_json(&state.result, e)
                       : run_result_print(&state.result, e);
    run_done(&state);
    return r;
}

int cmd_run(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct run_plan plan = {.task = TASK_INIT, .loop = 1, .top = 5};
    int r = parse_options(argc, argv, &plan, e);
    if (r == 0)
        r = run_and_show(&plan, e);
    task_done(&plan.task);
    return r;
}
