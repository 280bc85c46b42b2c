// rknnctl replay: makes recorded requests again and compares the answers.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "rknnd.h"
#include "tools/clock.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/rknnctl.h"
#include "tools/terminal.h"

#define DRAW_NS 100000000

static void draw(void *user, uint64_t done, uint64_t total)
{
    uint64_t *drawn_ns = user, now = clock_ns();
    if (now - *drawn_ns < DRAW_NS)
        return;
    *drawn_ns = now;
    interrupt_drawing(true);
    fprintf(stderr, "\r\033[Kreplaying: %" PRIu64 " %%", total ? done * 100 / total : 100);
}

static void erase(void)
{
    fprintf(stderr, "\r\033[K");
    interrupt_drawing(false);
}

static json_t *to_json(const rknnd_replay_result *r)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:s}", "connections",
                     (json_int_t)r->n_connections, "requests", (json_int_t)r->n_requests, "runs",
                     (json_int_t)r->n_runs, "answers", (json_int_t)r->n_answers, "different",
                     (json_int_t)r->n_different, "cut", (int)r->cut, "recorded_us",
                     (json_int_t)r->recorded_us, "replayed_us", (json_int_t)r->replayed_us,
                     "first_difference", r->difference);
}

static void print(const rknnd_replay_result *r)
{
    struct format_buffer then, now;
    printf("%" PRIu64 " requests on %u connection%s, %" PRIu64 " of them runs\n", r->n_requests,
           r->n_connections, r->n_connections == 1 ? "" : "s", r->n_runs);
    printf("%" PRIu64 " answers compared, %" PRIu64 " differ\n", r->n_answers, r->n_different);
    printf("%s when recorded, %s now\n", format_us(&then, r->recorded_us),
           format_us(&now, r->replayed_us));
    if (r->cut)
        terminal_wrap(stdout,
                      "the recording ends in the middle of a frame: the program was cut short", 0,
                      terminal_width(stdout));
}

int cmd_replay(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    bool json = false;
    const struct option_row rows[] = {
        {'j', "json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] replay FILE",
        .summary = "Makes the requests of a recording again, in the same order, and compares the\n"
                   "answers bit for bit. Fails (1) if one differs, and says which is the first.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    rknnd_replay_result result = {.struct_size = sizeof result};
    uint64_t drawn_ns = clock_ns();
    bool watched = terminal_is(stderr);
    int first, r = options_parse_n(&options, argc, argv, 1, 1, &first, f);
    if (r)
        return r;
    r = rknnd_replay(NULL, argv[first], watched ? draw : NULL, &drawn_ns, &result);
    if (watched)
        erase();
    if (r < 0)
        return failure_rknn(f, r, "%s", "");
    if (json)
        r = report_json(to_json(&result), f);
    else
        print(&result);
    if (r == 0 && result.n_different > 0)
        return failure_set(f, EXIT_RUNTIME, "%" PRIu64 " of %" PRIu64 " answers differ, first: %s",
                           result.n_different, result.n_answers, result.difference);
    return r;
}
