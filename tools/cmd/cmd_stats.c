// rknnctl stats: who uses the device and how much, since the server began, once. The rates between
// two looks are `rknnctl top`'s.
#include <stdio.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"
#include "tools/view/usage.h"

static void free_stats(rknnd_stats **s)
{
    rknnd_free(*s);
}

static void free_text(char **text)
{
    rknnd_free(*text);
}

// The collector reads the file at any time.
static int write_metrics(const char *path, struct error *e)
{
    cleanup(free_text) char *text = NULL;
    cleanup(output_file_drop) struct output_file file = {0};
    int r = rknnd_get_metrics(NULL, &text);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    r = output_file_open(&file, path, e);
    if (r < 0)
        return r;
    fputs(text, file.stream);
    return output_file_close(&file, e);
}

// No earlier look: usage_print() shows totals since the server began.
int cmd_stats(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool json = false, prometheus = false;
    const char *path = NULL;
    const struct option_row rows[] = {
        OPTIONS_JSON(&json),
        {0, "prometheus", OPTION_FLAG, &prometheus, NULL, "totals in Prometheus's text format", 0,
         0, NULL},
        {'o', "output", OPTION_TEXT, &path, "FILE", "write that into FILE, whole or not at all", 0,
         0, NULL},
    };
    const struct cmd_options options = {
        .usage = "stats [--json | --prometheus [-o FILE]]",
        .summary =
            "Shows who uses the device, and how much of it each has had since the server\n"
            "began: jobs per second, share of the device (100% is one core), mean time in the\n"
            "queue; for each loaded model its mean run time, memory and worker process.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    cleanup(free_stats) rknnd_stats *s = NULL;
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r)
        return r;
    if (json && prometheus)
        return error_set(e, STATUS_PARAM_INVALID, "--json or --prometheus, not both");
    if (path && !prometheus)
        return error_set(e, STATUS_PARAM_INVALID, "--output is for --prometheus");
    if (prometheus)
        return write_metrics(path ? path : "-", e);
    r = rknnd_get_stats(NULL, &s);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (json)
        return print_json(usage_json(s), e);
    if (usage_print(NULL, s, stdout, terminal_width(stdout)) < 0)
        return error_no_memory(e, "a table", 0);
    return 0;
}
