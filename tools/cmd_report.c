// rknnctl report: all that is known of a model in one page for a browser.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cleanup.h"
#include "tools/comparison.h"
#include "tools/memory.h"
#include "tools/page.h"
#include "tools/profile.h"
#include "tools/report.h"
#include "tools/rknnctl.h"

struct report {
    struct profile_plan profile;
    struct comparison_plan comparison; // golden NULL: none
    const char *file;
};

static int parse(int argc, char **argv, struct report *p, struct failure *f)
{
    struct profile_plan *plan = &p->profile;
    struct comparison_plan *c = &p->comparison;
    const struct option_row rows[] = {
        {'o', "output", OPTION_TEXT, &p->file, "FILE", "the page (default report.html)", 0, 0},
        {'g', "golden", OPTION_TEXT, &c->golden, "MODEL", "the float model: accuracy, too", 0, 0},
        {'G', "golden-server", OPTION_TEXT, &c->golden_server, "URI", "that runs it (default sim:)",
         0, 0},
        TASK_INPUT(&plan->task),
        TASK_SHAPE(&plan->task),
        TASK_LAYOUT(&plan->task),
        {'n', "loop", OPTION_NUMBER, &plan->loop, "N", "runs (default 10)", 1, 100000},
        COMPARISON_MAP(c),
        COMPARISON_LIMIT(c),
    };
    const struct options options = {
        .usage = "[--server URI] report MODEL [-o FILE] [-g MODEL.onnx -i FILE…]",
        .summary = "Writes one page for a browser: layers, operators, memory, graph and, with a\n"
                   "float model and inputs, accuracy. It needs nothing but itself.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&plan->task, &options, argc, argv, f);
    c->task = plan->task;
    return r;
}

static int add_profile(const struct report *p, json_t *data, struct failure *f)
{
    struct profile profile = {0};
    int r = profile_measure(&profile, &p->profile, f);
    if (r == 0)
        json_object_set_new(data, "server", report_server_json(&profile.server));
    if (r == 0)
        json_object_set_new(data, "profile", profile_json(&profile));
    profile_done(&profile);
    return r;
}

static int add_memory(const struct report *p, json_t *data, struct failure *f)
{
    struct memory memory = {0};
    int r = memory_measure(&memory, &p->profile.task, f);
    if (r == 0)
        json_object_set_new(data, "memory", memory_json(&memory));
    if (r == 0)
        json_object_set(data, "description", memory.description);
    memory_done(&memory);
    return r;
}

static int add_accuracy(const struct report *p, json_t *data, struct failure *f)
{
    struct comparison comparison = {0};
    int r = comparison_make(&comparison, &p->comparison, f);
    if (r == 0)
        json_object_set_new(data, "accuracy", comparison_json(&comparison));
    comparison_done(&comparison);
    return r;
}

static int write_page(const struct report *p, json_t *data, struct failure *f)
{
    cleanup(fclose_p) FILE *out = fopen(p->file, "we");
    if (!out)
        return failure_set(f, EXIT_RUNTIME, "%s: %s", p->file, strerror(errno));
    if (page_write(data, out) < 0)
        return failure_no_memory(f);
    if (fflush(out) != 0 || ferror(out))
        return failure_set(f, EXIT_RUNTIME, "%s: %s", p->file, strerror(errno));
    printf("%s\n", p->file);
    return 0;
}

static int make(const struct report *p, struct failure *f)
{
    json_t *data = json_pack("{s:s}", "model", p->profile.task.model);
    int r = data ? 0 : failure_no_memory(f);
    if (r == 0 && p->comparison.golden)
        r = add_accuracy(p, data, f);
    if (r == 0)
        r = add_memory(p, data, f);
    if (r == 0)
        r = add_profile(p, data, f);
    if (r == 0)
        r = write_page(p, data, f);
    json_decref(data);
    return r;
}

int cmd_report(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    struct report p = {
        .profile = {.task = TASK_INIT, .loop = 10, .warmup = 3, .seed = 1},
        .comparison = {.server = settings->server, .golden_server = "sim:", .limit = 5},
        .file = "report.html"};
    int r = parse(argc, argv, &p, f);
    if (r == 0)
        r = make(&p, f);
    text_list_done(&p.comparison.map);
    task_done(&p.profile.task);
    return r;
}
