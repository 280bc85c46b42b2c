// rknnctl dump: writes what each node of a model computes into files. dump_execute() does the work;
// this file is its command line.
#include "tools/rknnctl.h"
#include "tools/run/dump_files.h"

// A folder is required: tensors on standard output would be of no use.
static int parse_options(int argc, char **argv, struct dump_plan *p, struct error *e)
{
    const struct option_row rows[] = {
        TASK_INPUTS(&p->task),
        TASK_LOADING(&p->task),
        OPTIONS_OUTPUT(&p->folder, "DIR", "write each tensor there"),
        {0, "only", OPTION_TEXT, &p->only, "NAME", "tensors of this name or shell pattern", 0, 0,
         NULL},
        OPTIONS_RAW(&p->raw, "write the stored type, not float32"),
        OPTIONS_JSON(&p->json),
        OPTIONS_CSV(&p->csv),
    };
    const struct cmd_options options = {
        .usage = "dump MODEL -i FILE… -o DIR",
        .summary =
            "Runs a model once and writes what each of its nodes computes into a folder, one\n"
            "file for each tensor, <number>_<name>.npy, in the shape that the model file\n"
            "gives it (NCHW). What the device has fused into another node is not there.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, e);
    if (r == 0 && !p->folder)
        r = error_set(e, STATUS_PARAM_INVALID, "no folder: give one with -o DIR");
    return r ? r : cmd_options_check_form(p->json, p->csv, e);
}

int cmd_dump(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct dump_plan plan = {.task = TASK_INIT};
    int r = parse_options(argc, argv, &plan, e);
    if (r == 0)
        r = dump_execute(&plan, e);
    task_done(&plan.task);
    return r;
}
