// Long work.
#include "tools/progress.h"

#include <stdio.h>
#include <string.h>

#include "rknnd.h"
#include "tools/clock.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

#define REDRAW_NS 100000000u
#define MAX_BAR   40
#define MAX_LABEL 24

static const char *short_label(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "12.3 MiB of 27.0 MiB  8.10 MiB/s" or "45 of 100".
static int describe(const struct progress *p, char *text, size_t size)
{
    struct format_buffer done, total, speed;
    uint64_t per_s = (uint64_t)((double)p->done * 1e9 / (double)(progress_ns(p) + 1));
    if (p->counts)
        return snprintf(text, size, "%llu of %llu", (unsigned long long)p->done,
                        (unsigned long long)p->total);
    return snprintf(text, size, "%s of %s  %s/s", format_bytes(&done, p->done),
                    format_bytes(&total, p->total), format_bytes(&speed, per_s));
}

// " 45%  12.3 MiB of 27.0 MiB  8.10 MiB/s" behind label and bar, one column short of the edge.
static void draw(const struct progress *p)
{
    static const char full[MAX_BAR + 1] = "########################################";
    char right[100], left[MAX_LABEL + 8];
    int n = snprintf(right, sizeof right, "%3u%%  ", (unsigned)(p->done * 100 / p->total));
    n += describe(p, right + n, sizeof right - (size_t)n);
    n += snprintf(left, sizeof left, "%.*s", MAX_LABEL, short_label(p->label));
    int bar = (int)terminal_width(stderr) - n - 6;
    bar = bar > MAX_BAR ? MAX_BAR : bar;
    fprintf(stderr, "\r%s ", left);
    if (bar >= 8)
        fprintf(stderr, "[%-*.*s] ", bar, (int)(p->done * (uint64_t)bar / p->total), full);
    fprintf(stderr, "%s\033[K", right);
    fflush(stderr);
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    struct progress *p = user;
    p->end_ns = clock_ns();
    p->done = done;
    p->total = total;
    bool due = done == total || p->end_ns - p->drawn_ns >= REDRAW_NS;
    if (!p->draw || !total || !due)
        return;
    p->drawn_ns = p->end_ns;
    interrupt_drawing(true);
    draw(p);
}

void progress_start(struct progress *p, const char *label)
{
    *p = (struct progress){.label = label, .draw = terminal_is(stderr), .start_ns = clock_ns()};
    rknnd_set_progress(on_progress, p);
}

void progress_start_counting(struct progress *p, const char *label)
{
    *p = (struct progress){
        .label = label, .draw = terminal_is(stderr), .counts = true, .start_ns = clock_ns()};
}

void progress_count(struct progress *p, uint64_t done, uint64_t total)
{
    on_progress(p, done, total);
}

void progress_erase(struct progress *p)
{
    if (!p->drawn_ns)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    interrupt_drawing(false);
    p->drawn_ns = 0;
}

void progress_end(struct progress *p)
{
    if (!p->counts)
        rknnd_set_progress(NULL, NULL);
    progress_erase(p);
}

uint64_t progress_ns(const struct progress *p)
{
    return p->total ? p->end_ns - p->start_ns : 0;
}
