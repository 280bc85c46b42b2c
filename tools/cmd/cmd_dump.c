// rknnctl dump: writes what each node of a model computes into files. dump_execute() does the work;
// this file is its command line.
#include "tools/rknnctl.h"
#include "tools/run/dump_files.h"

// A folder is required: tensors on standard output would be of no use.
static int parse_options(int argc, char **argv, struct dump_plan *p, struct failure *f)
{
    const struct option_row rows[] = {
        TASK_INPUTS(&p->task),
        TASK_LOADING(&p->task),
        OPTIONS_OUTPUT(&p->folder, "DIR", "write each tensor there"),
        {0, "only", OPTION_TEXT, &p->only, "NAME", "tensors of this name or shell pattern", 0, 0},
        OPTIONS_RAW(&p->raw, "write the stored type, not float32"),
        OPTIONS_JSON(&p->json),
        OPTIONS_CSV(&p->csv),
    };
    const struct options options = {
        .usage = "dump MODEL -i FILE… -o DIR",
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
    return r ? r : options_check_form(p->json, p->csv, f);
}

int cmd_dump(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct dump_plan plan = {.task = TASK_INIT};
    int r = parse_options(argc, argv, &plan, f);
    if (r == 0)
        r = dump_execute(&plan, f);
    task_done(&plan.task);
    return r;
}
