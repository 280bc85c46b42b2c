// rknnctl ping: round trips of a small message.
#include <stdio.h>
#include <stdlib.h>

#include "tools/cleanup.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/rknnctl.h"

#define PORTION 100

static int print_text(const rknnd_server_info *info, const uint64_t *sorted, uint32_t n)
{
    struct format_buffer min, median, p99, max;
    report_server_line(info);
    printf("\n%u round trip%s: min %s, median %s, p99 %s, max %s\n", n, n == 1 ? "" : "s",
           format_ns(&min, sorted[0]), format_ns(&median, stats_percentile(sorted, n, 50)),
           format_ns(&p99, stats_percentile(sorted, n, 99)), format_ns(&max, sorted[n - 1]));
    return 0;
}

// Ctrl-C ends it early, with one portion at least. Returns an exit code; *ret_n are done.
static int measure(uint64_t *ns, uint32_t count, uint32_t *ret_n, struct failure *f)
{
    for (*ret_n = 0; *ret_n < count && !(*ret_n && interrupt_seen());) {
        uint32_t left = count - *ret_n, n = left < PORTION ? left : PORTION;
        int r = rknnd_ping(NULL, n, ns + *ret_n);
        if (r < 0)
            return failure_rknn(f, r, "%s", "");
        *ret_n += n;
    }
    return 0;
}

int cmd_ping(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    uint32_t count = 10, n;
    bool json = false;
    const struct option_row rows[] = {
        {'c', "count", OPTION_NUMBER, &count, "N", "round trips (default 10)", 1, 1000000},
        {'j', "json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] ping [-c N]",
        .summary = "Measures round trips of a small message to the server, without its device.\n"
                   "Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = options_parse_n(&options, argc, argv, 0, 0, &first, f);
    if (r)
        return r;
    cleanup(free_p) uint64_t *ns = calloc(count, sizeof *ns);
    if (!ns)
        return failure_no_memory(f);
    rknnd_server_info info;
    interrupt_defer();
    r = report_get_server(&info, f);
    if (r)
        return r;
    r = measure(ns, count, &n, f);
    if (r)
        return r;
    stats_sort(ns, n);
    if (!json)
        return print_text(&info, ns, n);
    return report_json(json_pack("{s:s, s:I, s:o}", "uri", info.uri, "count", (json_int_t)n,
                                 "round_trip_us", report_percentiles_json(ns, n, 1e3)),
                       f);
}
