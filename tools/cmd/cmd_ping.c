// rknnctl ping: round trips of a small message to the server, without its device: what the
// transport alone costs. Sent in portions, between which Ctrl-C and the progress line are served.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"

// Round trips between two looks at Ctrl-C: few enough to end within a moment even on a slow link.
#define PORTION 100

static void ping_print_text(const rknnd_server_info *info, const uint64_t *sorted, uint32_t n)
{
    struct format_buffer min, median, p99, max;
    print_server_line(info);
    printf("\n%u round trip%s: min %s, median %s, p99 %s, max %s\n", n, n == 1 ? "" : "s",
           format_ns(&min, sorted[0]), format_ns(&median, stats_percentile(sorted, n, 50)),
           format_ns(&p99, stats_percentile(sorted, n, 99)), format_ns(&max, sorted[n - 1]));
}

static int show_times(bool json, const rknnd_server_info *info, const uint64_t *sorted, uint32_t n,
                      struct error *e)
{
    if (!json) {
        ping_print_text(info, sorted, n);
        return 0;
    }
    return print_json(json_pack("{s:s, s:I, s:o}", "uri", info->uri, "count", (json_int_t)n,
                                "round_trip_us", print_percentiles_json(sorted, n, 1e3)),
                      e);
}

// At least one portion is sent, also after Ctrl-C.
static int measure_pings(uint64_t *ns, uint32_t count, uint32_t *ret_n, struct error *e)
{
    struct progress progress;
    int r = 0;
    progress_start_counting(&progress, "round trips", count);
    for (*ret_n = 0; r == 0 && *ret_n < count && !(*ret_n && interrupt_seen());) {
        uint32_t left = count - *ret_n, n = left < PORTION ? left : PORTION;
        r = rknnd_ping(NULL, n, ns + *ret_n);
        if (r == 0)
            *ret_n += n;
        progress_count(&progress, *ret_n, count);
    }
    progress_end(&progress);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

// What was measured before a failure is shown; the failure stays the result.
int cmd_ping(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    uint32_t count = 10, n;
    bool json = false;
    const struct option_row rows[] = {
        OPTIONS_LOOP(&count, "round trips (default 10)", 1, 1000000),
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "ping [-n N]",
        .summary = "Measures round trips of a small message to the server, without its device.\n"
                   "Ctrl-C ends it early.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r)
        return r;
    cleanup(free_p) uint64_t *ns = calloc(count, sizeof *ns);
    if (!ns)
        return error_no_memory(e, "round trips", 0);
    rknnd_server_info info;
    interrupt_defer();
    r = print_get_server(&info, e);
    if (r)
        return r;
    r = measure_pings(ns, count, &n, e);
    if (n == 0)
        return r;
    struct error ignored;
    stats_sort(ns, n);
    int shown = show_times(json, &info, ns, n, r ? &ignored : e);
    return r ? error_prefix(e, "ended after %u round trips", n) : shown;
}
