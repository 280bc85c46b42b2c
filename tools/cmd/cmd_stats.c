// rknnctl stats: who uses the device and how much, since the server began, once. The rates between
// two looks are `rknnctl top`'s.
#include <stdio.h>

#include "base/cleanup.h"
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

// No earlier look: usage_print() shows totals since the server began.
int cmd_stats(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool json = false, prometheus = false;
    const struct option_row rows[] = {
        OPTIONS_JSON(&json),
        {0, "prometheus", OPTION_FLAG, &prometheus, NULL, "print Prometheus's text format", 0, 0,
         NULL},
    };
    const struct cmd_options options = {
        .usage = "stats [--json | --prometheus]",
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
    r = rknnd_get_stats(NULL, &s);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (json)
        return print_json(usage_json(s), e);
    if (prometheus)
        usage_prometheus(s, stdout);
    else if (usage_print(NULL, s, stdout, terminal_width(stdout)) < 0)
        return error_no_memory(e, "a table", 0);
    return 0;
}
