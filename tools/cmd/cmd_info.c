// rknnctl info: describes the server or a model, as a summary on one screen, in full (--all), as
// JSON, or as a graph for Graphviz (--dot), or says what is wrong with it (--lint). A model that
// the server refuses is described as far as possible; the command fails afterwards.
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/run/description.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/print.h"
#include "tools/ui/terminal.h"
#include "tools/view/describe.h"
#include "tools/view/dot.h"
#include "tools/view/lint.h"
#include "tools/view/summary.h"

static void print_server(const rknnd_server_info *i)
{
    struct format_buffer b;
    print_heading("%s", i->uri);
    print_line("software", "%s, protocol %u", i->software, i->protocol_version);
    print_line("chip", "%s, %u core%s", i->chip, i->n_cores, i->n_cores == 1 ? "" : "s");
    print_line("backend", "%s", i->backend);
    print_line("runtime", "%s", *i->runtime_version ? i->runtime_version : "-");
    print_line("driver", "%s", *i->driver_version ? i->driver_version : "-");
    print_line("memory", "%s", i->buffers);
    print_line("SRAM", "%s", format_bytes(&b, i->sram_size));
    print_line("limits", "model %s", format_bytes(&b, i->max_model_size));
    print_line("", "inputs or outputs of a run %s", format_bytes(&b, i->max_payload_size));
    print_line("heartbeat", "%u ms; a dead link is noticed after %u ms", i->heartbeat_ms,
               i->peer_timeout_ms);
}

// Without a model: the server. With one: its summary, and with --all the server and everything.
static int info_print_text(const rknnd_server_info *info, const char *path, json_t *model, bool all,
                           struct error *e)
{
    size_t width = terminal_width(stdout);
    if (!model || all)
        print_server(info);
    if (!model)
        return 0;
    if (all)
        putchar('\n');
    print_heading("%s", path);
    int r = summary_print(model, info, stdout, width);
    if (all && r == 0) {
        putchar('\n');
        r = describe_print(model, stdout, SIZE_MAX, width);
    }
    return r < 0 ? error_no_memory(e, "a description", 0) : 0;
}

// Only the graph on standard output, for a pipe into dot(1).
static int print_dot(const char *path, json_t *model, struct error *e)
{
    if (!model)
        return error_set(e, STATUS_PARAM_INVALID, "--dot draws a model: give its file");
    const char *refused = json_string_value(json_object_get(model, "refused"));
    if (json_array_size(json_object_get(model, "nodes")) == 0)
        return error_set(e, STATUS_MODEL_INVALID, "model %s: the server gives no nodes of it%s%s",
                         path, refused ? ": " : "", refused ? refused : "");
    return dot_write(model, stdout) < 0 ? error_no_memory(e, "a description", 0) : 0;
}

struct info {
    bool json, all, dot, lint, csv;
    double fail_findings; // findings; NAN: none is too many
};

// Findings are shown first: a gate that fails has them in its log.
static int print_lint(const struct info *i, const char *path, const json_t *model, struct error *e)
{
    json_t *findings = lint_find(model);
    size_t n = json_array_size(findings);
    if (!findings)
        return error_no_memory(e, "findings", 0);
    if (i->csv)
        lint_csv(findings, stdout);
    else if (!i->json && (n || !json_object_get(model, "refused")))
        lint_print(findings, stdout); // there is much to say of what is refused: the error is it
    int r = i->json ? print_json(json_pack("{s:O}", "findings", findings), e) : 0;
    json_decref(findings);
    if (r != 0 || isnan(i->fail_findings) || (double)n <= i->fail_findings)
        return r;
    error_set(e, STATUS_FAIL, "model %s: %zu finding%s, --fail-findings %.10g", path, n,
              n == 1 ? "" : "s", i->fail_findings);
    return EXIT_GATE;
}

static int check_lint(const struct info *i, const char *path, struct error *e)
{
    if (!i->lint && (i->csv || !isnan(i->fail_findings)))
        return error_set(e, STATUS_PARAM_INVALID,
                         "--csv and --fail-findings are of findings: --lint");
    if (i->lint && !path)
        return error_set(e, STATUS_PARAM_INVALID, "--lint is about a model: give its file");
    if (i->lint && i->dot)
        return error_set(e, STATUS_PARAM_INVALID, "--lint and --dot are two forms: ask for one");
    return cmd_options_check_form(i->json, i->csv, e);
}

// "O*" leaves the member out when there is no model.
static int print_all(const char *path, json_t *model, bool json, bool long_lists, struct error *e)
{
    rknnd_server_info info;
    int r = print_get_server(&info, e);
    if (r != 0)
        return r;
    if (!json)
        return info_print_text(&info, path, model, long_lists, e);
    return print_json(json_pack("{s:o, s:O*}", "server", print_server_json(&info), "model", model),
                      e);
}

// The description comes first: it fails for files that cannot be read. A refused model is printed
// and then fails with the reason; with --dot it does not fail, since the output feeds a pipe.
int cmd_info(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct info i = {.fail_findings = NAN};
    struct task task = TASK_INIT;
    const struct option_row rows[] = {
        {'a', "all", OPTION_FLAG, &i.all, NULL, "print everything, the nodes too", 0, 0, NULL},
        TASK_SHAPE(&task),
        {'j', "json", OPTION_FLAG, &i.json, NULL, "print JSON, with everything", 0, 0, NULL},
        {0, "dot", OPTION_FLAG, &i.dot, NULL, "print only the model's graph, for Graphviz", 0, 0,
         NULL},
        {0, "lint", OPTION_FLAG, &i.lint, NULL, "print what is wrong or costs time, and what to do",
         0, 0, NULL},
        OPTIONS_CSV(&i.csv),
        {0, "fail-findings", OPTION_REAL, &i.fail_findings, "N",
         "with --lint: fail (6) if there are more", 0, 1000000, NULL},
    };
    const struct cmd_options options = {
        .usage = "info [MODEL]",
        .summary =
            "Describes the server or, when a file is given, that model: on one screen what it\n"
            "is, what it takes and gives, what it costs on its chip, and whether the server\n"
            "runs it. A refused one is described as far as it can be read, and fails (4).",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    json_t *model = NULL;
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 1, &first, e);
    task.model = r == 0 && first < argc ? argv[first] : NULL;
    if (r == 0 && i.dot && i.json)
        r = error_set(e, STATUS_PARAM_INVALID, "--dot and --json are two forms: ask for one");
    if (r == 0)
        r = check_lint(&i, task.model, e);
    if (r == 0 && task.model)
        r = description_get(&task, &model, e);
    if (r == 0 && model && !i.json)
        r = description_make_printable(&model, e);
    if (r == 0)
        r = i.lint  ? print_lint(&i, task.model, model, e)
            : i.dot ? print_dot(task.model, model, e)
                    : print_all(task.model, model, i.json, i.all, e);
    const char *refused = json_string_value(json_object_get(model, "refused"));
    if (r == 0 && refused && !i.dot)
        r = error_set(e, STATUS_MODEL_INVALID, "model %s: %s", task.model, refused);
    json_decref(model);
    task_done(&task);
    return r;
}
