// rknnctl top: who uses the device, with the rates between two looks: on the full screen with
// ncurses, or one look after the other (--batch, a pipe, --json).
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "tools/rknnctl.h"
#include "tools/run/heat.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"
#include "tools/view/usage.h"

struct top {
    rknnd_server_info server;
    rknnd_stats *before, *now; // `before` NULL: the first look
    struct heat heat;
    uint32_t interval_ms;
    bool json;
};

// The last look becomes `before`; both are the struct's.
static int look_once(struct top *t, struct error *e)
{
    rknnd_free(t->before);
    t->before = t->now;
    t->now = NULL;
    int r = rknnd_get_stats(NULL, &t->now);
    heat_done(&t->heat);
    if (r == 0)
        heat_get(&t->heat);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

// ---- full screen --------------------------------------------------------------------------------

// Cuts at the screen's edges; what does not fit is not scrollable.
static void draw_lines(char *text)
{
    char *line;
    erase();
    for (int y = 0; y < LINES && (line = strsep(&text, "\n")); y++)
        mvaddnstr(y, 0, line, COLS);
    refresh();
}

static int draw_screen(const struct top *t, struct error *e)
{
    cleanup(free_p) char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return error_no_memory(e, "a table", 0);
    fprintf(out, "%s: %s, %s, %s        q ends\n", t->server.uri, t->server.software,
            t->server.chip, t->server.backend);
    heat_print(&t->heat, out);
    int r = usage_print(t->before, t->now, out, (size_t)COLS);
    if (fclose(out) != 0 || !text || r < 0)
        return error_no_memory(e, "a table", 0);
    draw_lines(text);
    return 0;
}

// getch() is the pause: it returns after the interval, or at once with a key or when the window's
// size changes. The first look is made before ncurses takes the terminal, so that a failure to
// connect prints normally.
static int run_screen(struct top *t, struct error *e)
{
    int r = look_once(t, e), key = ERR;
    setlocale(LC_CTYPE, "");
    if (r)
        return r;
    interrupt_defer();
    if (!initscr())
        return error_set(e, STATUS_FAIL, "this terminal cannot be drawn on (TERM); try --batch");
    noecho();
    curs_set(0);
    timeout((int)t->interval_ms);
    while (r == 0 && key != 'q' && !interrupt_seen()) {
        r = draw_screen(t, e);
        key = r ? ERR : getch();
        if (r == 0 && key != 'q')
            r = look_once(t, e);
    }
    endwin();
    return r;
}

// ---- one after the other ------------------------------------------------------------------------

// A signal ends the pause early: run_batch() then sees it.
static void rest_until(uint32_t ms)
{
    nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
}

// JSON lines: an object for each look, with totals; rates are the reader's to compute.
static int print_look(const struct top *t, bool first, struct error *e)
{
    if (t->json) {
        json_t *o = usage_json(t->now);
        if (o)
            json_object_set_new(o, "sensors", heat_json(&t->heat));
        int r = o ? json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII)
                  : -1;
        json_decref(o);
        putchar('\n');
        return r < 0 ? error_no_memory(e, "a table", 0) : 0;
    }
    if (!first)
        putchar('\n');
    heat_print(&t->heat, stdout);
    return usage_print(t->before, t->now, stdout, terminal_width(stdout)) < 0
               ? error_no_memory(e, "a table", 0)
               : 0;
}

// Rates need two looks: the first one is not printed. Flushed after each look, for pipes.
static int run_batch(struct top *t, uint32_t n, struct error *e)
{
    int r = look_once(t, e);
    interrupt_defer();
    for (uint32_t i = 0; r == 0 && i < n && !interrupt_seen(); i++) {
        rest_until(t->interval_ms);
        r = look_once(t, e);
        if (r == 0)
            r = print_look(t, i == 0, e);
        fflush(stdout);
    }
    return r;
}

int cmd_top(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct top t = {.interval_ms = 1000};
    bool batch = false;
    uint32_t count = 0;
    const struct option_row rows[] = {
        {0, "interval", OPTION_NUMBER, &t.interval_ms, "MS", "between looks (default 1000)", 50,
         3600000, NULL},
        {0, "batch", OPTION_FLAG, &batch, NULL, "print one look after the other, as in a pipe", 0,
         0, NULL},
        OPTIONS_LOOP(&count, "with --batch: end after N looks (default 1)", 1, 1000000),
        OPTIONS_JSON(&t.json),
    };
    const struct cmd_options options = {
        .usage = "top [--interval MS] [--batch [-n N]]",
        .summary = "Shows, and refreshes, who uses the device: as `rknnctl stats`, with the rates\n"
                   "between two looks.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r == 0)
        r = print_get_server(&t.server, e);
    if (r)
        return r;
    if (batch || count || t.json || !terminal_is(stdout))
        r = run_batch(&t, count ? count : 1, e);
    else
        r = run_screen(&t, e);
    rknnd_free(t.before);
    rknnd_free(t.now);
    heat_done(&t.heat);
    return r;
}
