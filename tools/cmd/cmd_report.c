// rknnctl report: everything about a model in one HTML page. Collects the data of perf, memory,
// info and accuracy in one JSON object, which page_write() puts into the template:
//
//   model, tool, date, made_up_inputs, inputs, outputs     always
//   server, profile, memory, description                   always
//   accuracy, golden                                       with --golden
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/compare/comparison.h"
#include "tools/rknnctl.h"
#include "tools/run/measured.h"
#include "tools/run/memory_use.h"
#include "tools/ui/print.h"
#include "tools/view/page.h"

struct report {
    struct profile_plan profile;
    struct comparison_plan comparison; // golden NULL: none
    const char *file;
};

static int parse_options(int argc, char **argv, struct report *p, struct error *e)
{
    struct profile_plan *plan = &p->profile;
    struct comparison_plan *c = &p->comparison;
    const struct option_row rows[] = {
        OPTIONS_OUTPUT(&p->file, "FILE", "the page (default report.html; -: standard output)"),
        COMPARISON_GOLDEN(c),
        COMPARISON_GOLDEN_SERVER(c),
        TASK_INPUTS(&plan->task),
        TASK_LOADING(&plan->task),
        OPTIONS_LOOP(&plan->loop, "runs (default 10)", 1, 100000),
        OPTIONS_WARMUP(&plan->warmup),
        OPTIONS_SEED(&plan->seed),
        COMPARISON_MAP(c),
        COMPARISON_LIMIT(c),
    };
    const struct cmd_options options = {
        .usage = "report MODEL [-o FILE] [-g MODEL.onnx -i FILE…]",
        .summary = "Writes one page for a browser: layers, operators, memory, graph and, with a\n"
                   "float model and inputs, accuracy. It needs nothing but itself.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&plan->task, &options, argc, argv, e);
    c->task = plan->task;
    return r;
}

// Takes its own context, like each add_*(): one at a time, so that none disturbs another's numbers.
static int add_profile(const struct report *p, json_t *data, struct error *e)
{
    struct profile profile = {0};
    int r = profile_measure(&profile, &p->profile, e);
    if (r == 0)
        json_object_set_new(data, "server", print_server_json(&profile.server));
    if (r == 0)
        json_object_set_new(data, "profile", profile_json(&profile));
    profile_done(&profile);
    return r;
}

// The arena is in the memory's object; it would be in the page twice.
static int add_memory(const struct report *p, json_t *data, struct error *e)
{
    struct memory memory = {0};
    int r = memory_measure(&memory, &p->profile.task, e);
    if (r == 0)
        json_object_set_new(data, "memory", memory_json(&memory));
    if (r == 0) {
        json_object_del(memory.description, "arena"); // the memory has it
        json_object_set(data, "description", memory.description);
    }
    memory_done(&memory);
    return r;
}

// The comparison opens both models itself; golden's path may be any bytes, hence print_json_text().
static int add_accuracy(const struct report *p, json_t *data, struct error *e)
{
    struct comparison comparison = {0};
    int r = comparison_make(&comparison, &p->comparison, e);
    if (r == 0) {
        json_object_set_new(data, "accuracy", comparison_json(&comparison));
        json_object_set_new(data, "golden",
                            json_pack("{s:o, s:o}", "model", print_json_text(p->comparison.golden),
                                      "server", print_server_json(&comparison.golden_server)));
    }
    comparison_done(&comparison);
    return r;
}

static json_t *attrs_json(const rknn_tensor_attr *attrs, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, print_attr_json(&attrs[i]));
    return list;
}

// Inputs and outputs in the shapes of this run, which --shape and --shape-set may have chosen.
static int add_tensors(const struct report *p, json_t *data, struct error *e)
{
    struct model model;
    int r = task_open(&p->profile.task, 0, &model, e);
    if (r == 0) {
        json_object_set_new(data, "inputs", attrs_json(model.inputs, model.n_inputs));
        json_object_set_new(data, "outputs", attrs_json(model.outputs, model.n_outputs));
    }
    model_close(&model);
    return r;
}

// The page's path is printed only when it is complete; on standard output it would be in the page.
static int write_page(const struct report *p, json_t *data, struct error *e)
{
    cleanup(output_file_drop) struct output_file file = {0};
    int r = output_file_open(&file, p->file, e);
    if (r)
        return r;
    if (page_write(data, file.stream) < 0)
        return error_no_memory(e, "the page", 0);
    r = output_file_close(&file, e);
    if (r == 0 && strcmp(p->file, "-") != 0)
        printf("%s\n", p->file);
    return r;
}

// The output file is tried first: measuring takes long, and an unwritable path should not show at
// its end.
static int make_page(const struct report *p, struct error *e)
{
    json_t *data =
        json_pack("{s:o, s:s, s:o, s:b}", "model", print_json_text(p->profile.task.model), "tool",
                  rknnd_version(), "date", print_json_date(), "made_up_inputs",
                  p->profile.task.inputs.n == 0);
    int r = data ? output_file_check(p->file, e) : error_no_memory(e, "the page", 0);
    if (r == 0)
        r = add_tensors(p, data, e);
    if (r == 0 && p->comparison.golden)
        r = add_accuracy(p, data, e);
    if (r == 0)
        r = add_memory(p, data, e);
    if (r == 0)
        r = add_profile(p, data, e);
    if (r == 0)
        r = write_page(p, data, e);
    json_decref(data);
    return r;
}

int cmd_report(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct report p = {.profile = {.task = TASK_INIT, .loop = 10, .warmup = 3, .seed = 1},
                       .comparison = COMPARISON_PLAN_INIT,
                       .file = "report.html"};
    p.comparison.golden_server = "sim:";
    p.comparison.float_golden = true;
    int r = parse_options(argc, argv, &p, e);
    p.comparison.server = settings->server;
    if (r == 0)
        r = make_page(&p, e);
    text_list_done(&p.comparison.map);
    task_done(&p.profile.task);
    return r;
}
