// Turns of the loop, measured.
//
//   poll returns -> callbacks, with turns_mark() -> on_check() -> timers -> on_prepare() -> poll
//                              |<---------------- a turn ---------------->|
//
// It begins with the first mark. (libuv's own count of the time inside of poll forgets what came
// before a signal.) A busy machine may keep the thread waiting for a CPU meanwhile: the kernel
// knows how long, and that is subtracted. What is left is what the turn did and what it waited for,
// a lock or a child that a busy machine lets wait; what it did alone is the thread's processor time
// (longest_cpu_us). It is asked once in LOOK_NS only, at the beginning of a turn, so that much too
// much may be subtracted, and never too little. What a hypervisor's scheduler took from the whole
// machine is booked as processor time of whoever runs next, so it is never more than the turn took.
#include "server/turns.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"

#define LOOK_NS (TURNS_LOOK_US * 1000ull)
#define LOG_NS  1000000000ull // between two lines

// Field 2 of schedstat (proc-schedstats in the kernel's documentation). 0: not known.
static uint64_t read_queued(const struct turns *t)
{
    char text[128];
    ssize_t n = t->schedstat < 0 ? -1 : pread(t->schedstat, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) : 0;
}

uint64_t turns_cpu_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void turns_look(struct turns *t, uint64_t now_ns)
{
    t->cpu_ns = turns_cpu_ns();
    t->queued_ns = read_queued(t);
    t->looked_ns = now_ns;
}

// At the first thing that is done after polling.
static void turn_begin(struct turns *t, uint64_t now_ns)
{
    if (t->began_ns)
        return;
    t->began_ns = now_ns;
    if (now_ns - t->looked_ns > LOOK_NS)
        turns_look(t, now_ns);
}

// Ends the part that goes on.
static void part_end(struct turns *t, uint64_t now_ns)
{
    if (t->part && now_ns - t->part_ns > t->longest_part_ns) {
        t->longest_part = t->part;
        t->longest_part_ns = now_ns - t->part_ns;
    }
    t->part = NULL;
}

void turns_mark(uv_loop_t *loop, const char *part)
{
    struct turns *t = loop->data;
    if (!t)
        return;
    uint64_t now_ns = uv_hrtime();
    turn_begin(t, now_ns);
    part_end(t, now_ns);
    t->part = part;
    t->part_ns = now_ns;
}

static void turns_note(struct turns *t, uint64_t turn_ns, uint64_t now_ns)
{
    uint64_t queued_ns = read_queued(t) - t->queued_ns;
    uint64_t own_ns = turn_ns > queued_ns ? turn_ns - queued_ns : 0;
    uint64_t cpu_us = (turns_cpu_ns() - t->cpu_ns) / 1000;
    if (cpu_us > turn_ns / 1000)
        cpu_us = turn_ns / 1000;
    if (cpu_us > t->longest_cpu_us)
        t->longest_cpu_us = cpu_us;
    turns_look(t, now_ns);
    if (own_ns / 1000 > t->longest_us)
        t->longest_us = own_ns / 1000;
    if (own_ns <= TURNS_SLOW_US * 1000ull)
        return;
    t->n_slow++;
    if (t->logged_ns && now_ns - t->logged_ns < LOG_NS)
        return;
    t->logged_ns = now_ns;
    log_warn("a turn of the loop took %llu ms (%llu of the processor), in which no client was "
             "served; the longest part (%llu ms): %s",
             (unsigned long long)(own_ns / 1000000), (unsigned long long)(cpu_us / 1000),
             (unsigned long long)(t->longest_part_ns / 1000000),
             t->longest_part ? t->longest_part : "without a name");
}

// Short turns cost no look at schedstat.
static void on_prepare(uv_prepare_t *prepare)
{
    struct turns *t = container_of(prepare, struct turns, prepare);
    uint64_t now_ns = uv_hrtime();
    uint64_t turn_ns = t->began_ns ? now_ns - t->began_ns : 0;
    part_end(t, now_ns);
    if (turn_ns > TURNS_SLOW_US * 1000ull)
        turns_note(t, turn_ns, now_ns);
    else if (turn_ns / 1000 > t->longest_us)
        t->longest_us = turn_ns / 1000;
    t->longest_part = NULL;
    t->longest_part_ns = 0;
    t->began_ns = 0;
}

// What comes now (handles that close, timers) may have no mark.
static void on_check(uv_check_t *check)
{
    struct turns *t = container_of(check, struct turns, check);
    uint64_t now_ns = uv_hrtime();
    turn_begin(t, now_ns);
    part_end(t, now_ns);
}

// The handles do not keep the loop alive.
void turns_init(struct turns *t, uv_loop_t *loop)
{
    char path[64];
    *t = (struct turns){0};
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    t->schedstat = open(path, O_RDONLY | O_CLOEXEC);
    uv_check_init(loop, &t->check);
    uv_check_start(&t->check, on_check);
    uv_unref((uv_handle_t *)&t->check);
    uv_prepare_init(loop, &t->prepare);
    uv_prepare_start(&t->prepare, on_prepare);
    uv_unref((uv_handle_t *)&t->prepare);
    loop->data = t;
}

void turns_close(struct turns *t)
{
    t->prepare.loop->data = NULL;
    t->schedstat = fd_close(t->schedstat);
    uv_close((uv_handle_t *)&t->check, NULL);
    uv_close((uv_handle_t *)&t->prepare, NULL);
}
