// rknnctl dump: what each node of a model computes.
#include "tools/dump.h"
#include "tools/rknnctl.h"

static int parse(int argc, char **argv, struct dump_plan *p, struct failure *f)
{
    const struct option_row rows[] = {
        TASK_INPUT(&p->task),
        TASK_SHAPE(&p->task),
        TASK_ROW(&p->task),
        {'o', "output", OPTION_TEXT, &p->folder, "DIR", "write each tensor there", 0, 0},
        TASK_LAYOUT(&p->task),
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
    int r = task_parse(&p->task, &options, argc, argv, f);
    if (r == 0 && !p->folder)
        r = failure_set(f, EXIT_USAGE, "no folder: give one with -o DIR");
    return r;
}

int cmd_dump(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct dump_plan plan = {.task = TASK_INIT};
    int r = parse(argc, argv, &plan, f);
    if (r == 0)
        r = dump_execute(&plan, f);
    task_done(&plan.task);
    return r;
}
