// rknnctl log: the server's log, and how much it says.
#include <stdio.h>
#include <time.h>

#include "rknnd.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/rknnctl.h"
#include "tools/terminal.h"

#define LEVEL_UNCHANGED UINT32_MAX

static void print_line(const rknnd_log_line *line)
{
    static const char letters[] = "-EWIDT";
    struct tm parts;
    time_t seconds = (time_t)(line->time_us / 1000000);
    bool bad = line->level <= 2;
    localtime_r(&seconds, &parts);
    printf("%02d:%02d:%02d.%03u %c %s%s%s\n", parts.tm_hour, parts.tm_min, parts.tm_sec,
           (unsigned)(line->time_us / 1000 % 1000),
           line->level < sizeof letters - 1 ? letters[line->level] : '?',
           bad ? terminal_style(stdout, STYLE_RED) : "", line->text,
           bad ? terminal_style(stdout, STYLE_PLAIN) : "");
}

// Each line is out before the next one is waited for, also in a pipe.
static int on_line(void *user, const rknnd_log_line *line)
{
    (void)user;
    if (line && line->lost > 0)
        printf("(%llu lines are lost)\n", (unsigned long long)line->lost);
    if (line)
        print_line(line);
    return fflush(stdout) != 0 || interrupt_seen();
}

int cmd_log(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    bool follow = false;
    uint32_t lines = 0, level = LEVEL_UNCHANGED;
    const struct option_row rows[] = {
        {'n', "lines", OPTION_NUMBER, &lines, "N", "the last N lines (default 20)", 1, 1000000},
        {'f', "follow", OPTION_FLAG, &follow, NULL, "then those that come, until Ctrl-C", 0, 0},
        {'l', "level", OPTION_NUMBER, &level, "N", "log more or less: 0 nothing, 3 events, 5 all",
         0, 5},
    };
    const struct options options = {
        .usage = "[--server URI] log [-n N] [--follow] [--level N]",
        .summary = "Shows what the server has logged last. --level changes how much it logs until\n"
                   "it ends (for root and the service's own user, on its machine), and shows\n"
                   "nothing without -n or --follow.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = options_parse_n(&options, argc, argv, 0, 0, &first, f);
    if (r)
        return r;
    if (level != LEVEL_UNCHANGED) {
        r = rknnd_set_log_level(NULL, level);
        if (r < 0 || (!lines && !follow))
            return r < 0 ? failure_rknn(f, r, "%s", "") : 0;
    }
    interrupt_defer();
    r = rknnd_read_log(NULL, lines ? lines : 20, follow, on_line, NULL);
    return r < 0 ? failure_rknn(f, r, "%s", "") : 0;
}
