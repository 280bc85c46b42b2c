// rknnctl trace: what has happened in the server, for a timeline viewer.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/cleanup.h"
#include "tools/clock.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/rknnctl.h"
#include "tools/terminal.h"
#include "tools/timeline.h"

struct trace {
    struct timeline timeline;
    uint64_t n_events, n_lost;
    uint64_t end_ns; // of the watch; 0: it does not go on
};

static void free_stats(rknnd_stats **s)
{
    rknnd_free(*s);
}

static void say(const struct trace *t, uint64_t left_ns)
{
    if (!terminal_is(stderr))
        return;
    interrupt_drawing(left_ns > 0);
    fprintf(stderr, "\r\033[K");
    if (left_ns > 0)
        fprintf(stderr, "%" PRIu64 " events, %" PRIu64 " s to go (Ctrl-C ends it)", t->n_events,
                (left_ns + 999999999) / 1000000000);
}

static int on_events(void *user, const rknnd_events *part)
{
    struct trace *t = user;
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < part->n_events; i++)
        timeline_add(&t->timeline, &part->events[i]);
    t->n_events += part->n_events;
    t->n_lost += part->lost;
    if (!t->end_ns)
        return t->timeline.failed;
    say(t, t->end_ns > now ? t->end_ns - now : 0);
    return t->timeline.failed || interrupt_seen() || now >= t->end_ns;
}

static int watch(struct trace *t, uint32_t seconds, struct failure *f)
{
    if (seconds) {
        interrupt_defer();
        t->end_ns = clock_ns() + (uint64_t)seconds * 1000000000;
    }
    int r = rknnd_read_events(NULL, seconds > 0, on_events, t);
    say(t, 0);
    return r < 0 ? failure_rknn(f, r, "%s", "") : 0;
}

static void name_clients(struct trace *t)
{
    cleanup(free_stats) rknnd_stats *s = NULL;
    if (rknnd_get_stats(NULL, &s) == RKNN_SUCC)
        for (uint32_t i = 0; i < s->n_clients; i++)
            timeline_name_client(&t->timeline, s->clients[i].client, s->clients[i].program);
}

static int write_file(struct trace *t, const char *path, struct failure *f)
{
    json_t *json = timeline_finish(&t->timeline);
    if (!json)
        return failure_no_memory(f);
    int to_stdout = strcmp(path, "-") == 0;
    int r = to_stdout ? json_dumpf(json, stdout, JSON_COMPACT)
                      : json_dump_file(json, path, JSON_COMPACT);
    json_decref(json);
    if (r < 0)
        return failure_set(f, EXIT_RUNTIME, "%s: cannot be written", path);
    if (to_stdout)
        return 0;
    if (t->n_lost)
        fprintf(stderr,
                "%" PRIu64 " events are lost: the server forgets too soon (its option "
                "--trace-events)\n",
                t->n_lost);
    printf("%s: %" PRIu64 " events; open it in ui.perfetto.dev\n", path, t->n_events);
    return 0;
}

int cmd_trace(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    const char *path = "trace.json";
    uint32_t seconds = 0;
    const struct option_row rows[] = {
        {'o', "output", OPTION_TEXT, &path, "FILE", "default: trace.json; -: standard output", 0,
         0},
        {'n', "seconds", OPTION_NUMBER, &seconds, "N", "also what happens from now on, so long", 1,
         86400},
    };
    const struct options options = {
        .usage = "[--server URI] trace [-o FILE] [--seconds N]",
        .summary =
            "Writes what has happened in the server lately as a timeline for Perfetto:\n"
            "clients and their runs (inputs, queue, run, outputs), what each core did, layers\n"
            "of runs whose times were asked for, uploads and loading of models, workers that\n"
            "died.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    struct trace t = {0};
    int first, r = options_parse_n(&options, argc, argv, 0, 0, &first, f);
    if (r)
        return r;
    timeline_init(&t.timeline);
    r = watch(&t, seconds, f);
    if (r == 0) {
        name_clients(&t);
        r = write_file(&t, path, f);
    }
    timeline_done(&t.timeline);
    return r;
}
