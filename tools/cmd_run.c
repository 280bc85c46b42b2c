// rknnctl run: a model on inputs from files.
#include "tools/options.h"
#include "tools/rknnctl.h"
#include "tools/run.h"

static int parse(int argc, char **argv, struct run_plan *p, struct failure *f)
{
    const char *layout = NULL;
    int first;
    const struct option_row rows[] = {
        {'i', "input", OPTION_LIST, &p->inputs, "FILE",
         ".npy, .png or .jpg; also NAME=FILE, INDEX=FILE", 0, 0},
        {'x', "shape", OPTION_LIST, &p->shapes, "NAME=SHAPE",
         "an open input's shape: images=1x3x640x640", 0, 0},
        {'o', "output", OPTION_TEXT, &p->folder, "DIR", "write each output there as out<i>.npy", 0,
         0},
        {'l', "layout", OPTION_TEXT, &layout, "LAYOUT", "of 4-D arrays: nhwc (default) or nchw", 0,
         0},
        {'r', "raw", OPTION_FLAG, &p->raw, NULL, "write the model's own type, not float32", 0, 0},
        {'n', "loop", OPTION_NUMBER, &p->loop, "N", "run N times (default 1)", 1, 10000000},
        {'t', "top", OPTION_NUMBER, &p->top, "N", "largest values shown (default 5)", 0,
         RUN_MAX_TOP},
        {'p', "perf", OPTION_FLAG, &p->perf, NULL, "show times of layers, and memory", 0, 0},
        {'c', "core-mask", OPTION_CORES, &p->core_mask, "CORES",
         "auto, all, 0, 0,1, … or a mask 0x3", 0, 0},
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
    int r = options_parse_n(&options, argc, argv, 1, 1, &first, f);
    if (r)
        return r;
    p->model = argv[first];
    return input_layout_parse(layout, &p->layout, f);
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
    struct run_plan plan = {.loop = 1, .top = 5, .core_mask = RKNN_NPU_CORE_UNDEFINED};
    int r = parse(argc, argv, &plan, f);
    if (r == 0)
        r = run_and_show(&plan, f);
    text_list_done(&plan.inputs);
    text_list_done(&plan.shapes);
    return r;
}
