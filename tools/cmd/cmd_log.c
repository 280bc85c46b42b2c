// rknnctl log: shows the server's log and sets its level. The library calls on_line() on this
// thread for each line, and now and then without one, so that Ctrl-C is noticed while nothing is
// logged.
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rknnd.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define LEVEL_UNCHANGED UINT32_MAX

// "2026-01-31T12:00:00.123+01:00 W text", in local time; warnings and errors in red.
static void log_print_line(const rknnd_log_line *line)
{
    static const char letters[] = "-EWIDT";
    struct tm parts;
    time_t seconds = (time_t)(line->time_us / 1000000);
    bool bad = line->level <= 2;
    char day[32] = "", zone[8] = "";
    localtime_r(&seconds, &parts);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    strftime(zone, sizeof zone, "%z", &parts); // "+0100"
    printf("%s.%03u%.3s:%s %c %s%s%s\n", day, (unsigned)(line->time_us / 1000 % 1000), zone,
           zone[0] ? zone + 3 : "", line->level < sizeof letters - 1 ? letters[line->level] : '?',
           bad ? terminal_style(stdout, STYLE_RED) : "", line->text,
           bad ? terminal_style(stdout, STYLE_PLAIN) : "");
}

// One object a line (JSON lines), so that a reader can follow. Text that is not UTF-8 becomes null.
static void log_print_json(const rknnd_log_line *line)
{
    json_t *o =
        json_pack("{s:I, s:I, s:s, s:I}", "time_us", (json_int_t)line->time_us, "level",
                  (json_int_t)line->level, "text", line->text, "lost", (json_int_t)line->lost);
    if (!o) // the text is not UTF-8
        o = json_pack("{s:I, s:I, s:n, s:I}", "time_us", (json_int_t)line->time_us, "level",
                      (json_int_t)line->level, "text", "lost", (json_int_t)line->lost);
    json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(o);
}

// Flushed after each line, also in a pipe. Not 0 ends the log: the reader of the pipe is gone, or
// Ctrl-C.
static int on_line(void *user, const rknnd_log_line *line)
{
    const bool *json = user;
    if (line && *json)
        log_print_json(line);
    else if (line && line->lost > 0)
        printf("(%llu lines are lost)\n", (unsigned long long)line->lost);
    if (line && !*json)
        log_print_line(line);
    return fflush(stdout) != 0 || interrupt_seen();
}

// A level by name or digit, as RKNN_LOG_LEVEL counts.
static int set_level(void *target, const char *text, struct error *e)
{
    static const char *const names[] = {"silent", "error", "warn", "info", "debug", "trace"};
    uint32_t *level = target;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool number = text[0] == (char)('0' + i) && !text[1];
        if (number || strcmp(text, names[i]) == 0) {
            *level = i;
            return 0;
        }
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" is no level: 0 to 5 or silent, error, warn, info, debug, trace", text);
}

// --level alone changes the level and shows nothing.
int cmd_log(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool follow = false, json = false;
    uint32_t lines = 0, level = LEVEL_UNCHANGED;
    const struct option_row rows[] = {
        {0, "lines", OPTION_NUMBER, &lines, "N", "the last N lines (default 20)", 1, 1000000, NULL},
        {'f', "follow", OPTION_FLAG, &follow, NULL, "then those that come, until Ctrl-C", 0, 0,
         NULL},
        {0, "level", OPTION_CALL, &level, "LEVEL",
         "log more or less: error, warn, info, debug, 0 to 5", 0, 0, set_level},
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "log [--lines N] [--follow] [--level LEVEL]",
        .summary = "Shows what the server has logged last. --level changes how much it logs until\n"
                   "it ends (for root and the service's own user, on its machine), and shows\n"
                   "nothing without --lines or --follow.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r)
        return r;
    if (level != LEVEL_UNCHANGED) {
        r = rknnd_set_log_level(NULL, level);
        if (r < 0 || (!lines && !follow))
            return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
    }
    interrupt_defer();
    r = rknnd_read_log(NULL, lines ? lines : 20, follow, on_line, &json);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}
