// rknnctl dump: what each node of a model computes.
#include "tools/dump.h"
#include "tools/input_set.h"
#include "tools/rknnctl.h"

static int parse(int argc, char **argv, struct dump_plan *p, struct failure *f)
{
    const char *layout = NULL;
    int first;
    const struct option_row rows[] = {
        {'i', "input", OPTION_LIST, &p->inputs, "FILE",
         ".npy, .png or .jpg; also NAME=FILE, INDEX=FILE", 0, 0},
        {'x', "shape", OPTION_LIST, &p->shapes, "NAME=SHAPE",
         "an open input's shape: images=1x3x640x640", 0, 0},
        {'o', "output", OPTION_TEXT, &p->folder, "DIR", "write each tensor there", 0, 0},
        {'l', "layout", OPTION_TEXT, &layout, "LAYOUT", "of 4-D arrays: nhwc (default) or nchw", 0,
         0},
        {'O', "only", OPTION_TEXT, &p->only, "NAME", "tensors of this name or shell pattern", 0, 0},
        {'r', "raw", OPTION_FLAG, &p->raw, NULL, "write the stored type, not float32", 0, 0},
        {'j', "json", OPTION_FLAG, &p->json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] dump MODEL -i FILE… -o DIR",
        .summary =
            "Runs a model once and writes what each of its nodes computes into a folder, one\n"
            "file for each tensor, <number>_<name>.npy, in the shape that the model file\n"
            "gives it (NCHW). What the device has fused into another node is not there.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = options_parse_n(&options, argc, argv, 1, 1, &first, f);
    if (r)
        return r;
    p->model = argv[first];
    if (!p->folder)
        return failure_set(f, EXIT_USAGE, "no folder: give one with -o DIR");
    return input_layout_parse(layout, &p->layout, f);
}

int cmd_dump(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct dump_plan plan = {0};
    int r = parse(argc, argv, &plan, f);
    if (r == 0)
        r = dump_execute(&plan, f);
    text_list_done(&plan.inputs);
    text_list_done(&plan.shapes);
    return r;
}
