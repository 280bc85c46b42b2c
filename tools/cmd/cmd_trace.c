// rknnctl trace: writes what has happened in the server as a timeline for Perfetto. The library
// calls on_events() on this thread with the events that the server still holds and, with --seconds,
// those that follow; the timeline collects them in memory and is written at the end.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file/output_file.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"
#include "tools/view/timeline.h"

struct trace {
    struct timeline timeline;
    uint64_t n_events, n_lost;
    uint64_t end_ns; // when --seconds are over; 0: not following
};

static void free_stats(rknnd_stats **s)
{
    rknnd_free(*s);
}

// The countdown on standard error, redrawn in place; erased with 0 left.
static void say_written(const struct trace *t, uint64_t left_ns)
{
    if (!terminal_is(stderr))
        return;
    interrupt_drawing(left_ns > 0);
    fprintf(stderr, "\r\033[K");
    if (left_ns > 0)
        fprintf(stderr, "%" PRIu64 " events, %" PRIu64 " s to go (Ctrl-C ends it)", t->n_events,
                (left_ns + 999999999) / 1000000000);
}

// Called some times a second while following, also without events: so it notices Ctrl-C and the
// end. Not 0 ends it.
static int on_events(void *user, const rknnd_events *part)
{
    struct trace *t = user;
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < part->events->n; i++)
        timeline_add(&t->timeline, rknnd_event_at(part->events, i));
    t->n_events += part->events->n;
    t->n_lost += part->lost;
    if (!t->end_ns)
        return t->timeline.failed;
    say_written(t, t->end_ns > now ? t->end_ns - now : 0);
    return t->timeline.failed || interrupt_seen() || now >= t->end_ns;
}

static int watch_server(struct trace *t, uint32_t seconds, struct error *e)
{
    if (seconds) {
        interrupt_defer();
        t->end_ns = clock_ns() + (uint64_t)seconds * 1000000000;
    }
    int r = rknnd_read_events(NULL, seconds > 0, on_events, t);
    say_written(t, 0);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

// Clients that connected before the oldest event have no CONNECT event: their names come from the
// statistics. A failure only costs names.
static void name_clients(struct trace *t)
{
    cleanup(free_stats) rknnd_stats *s = NULL;
    if (rknnd_get_stats(NULL, &s) == RKNN_SUCC)
        for (uint32_t i = 0; i < s->clients->n; i++) {
            const rknnd_client_stats *c = rknnd_client_stats_at(s->clients, i);
            timeline_name_client(&t->timeline, c->client, c->program);
        }
}

static int write_file(struct trace *t, const char *path, struct error *e)
{
    cleanup(output_file_drop) struct output_file file = {0};
    json_t *json = timeline_finish(&t->timeline);
    int r = json ? output_file_open(&file, path, e) : error_no_memory(e, "the timeline", 0);
    if (r == 0) {
        json_dumpf(json, file.stream, JSON_COMPACT | JSON_ENSURE_ASCII);
        r = output_file_close(&file, e);
    }
    json_decref(json);
    if (r || strcmp(path, "-") == 0)
        return r;
    if (t->n_lost)
        fprintf(stderr,
                "%" PRIu64 " events are lost: the server keeps too few (its option "
                "--trace-events)\n",
                t->n_lost);
    printf("%s: %" PRIu64 " events; open it in ui.perfetto.dev\n", path, t->n_events);
    return 0;
}

// When the server is lost in the middle, what it told is still written; the failure stays the
// result.
static int record_and_write(struct trace *t, const char *path, uint32_t seconds, struct error *e)
{
    struct error ignored;
    int r = watch_server(t, seconds, e);
    if (r && t->n_events == 0)
        return r;
    if (r == 0)
        name_clients(t);
    int written = write_file(t, path, r ? &ignored : e);
    if (r == 0)
        return written;
    return written ? r : error_prefix(e, "%s ends where the server was lost", path);
}

// The path is tried before recording: hours of watching should not end at an unwritable file.
int cmd_trace(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    const char *path = "trace.json";
    uint32_t seconds = 0;
    const struct option_row rows[] = {
        OPTIONS_OUTPUT(&path, "FILE", "default: trace.json; -: standard output"),
        {0, "seconds", OPTION_NUMBER, &seconds, "N", "also what happens from now on, so long", 1,
         86400, NULL},
    };
    const struct cmd_options options = {
        .usage = "trace [-o FILE] [--seconds N]",
        .summary =
            "Writes what has happened in the server lately as a timeline for Perfetto:\n"
            "clients and their runs (inputs, queue, run, outputs), what each core did, layers\n"
            "of runs whose times were asked for, uploads and loading of models, workers that\n"
            "died.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    struct trace t = {0};
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r)
        return r;
    r = output_file_check(path, e);
    if (r)
        return r;
    timeline_init(&t.timeline);
    r = record_and_write(&t, path, seconds, e);
    timeline_done(&t.timeline);
    return r;
}
