// Called on the loop's thread; no function blocks.
#include "server/notify.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void on_watchdog(uv_timer_t *timer)
{
    const struct notify *n = timer->data;
    manager_tell(&n->manager, "WATCHDOG=1");
}

// Half of WATCHDOG_USEC, in ms, as sd_watchdog_enabled(3) recommends; 0 if no watchdog is meant for
// this process.
static uint64_t watchdog_interval(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && strtoul(pid, NULL, 10) != (unsigned long)getpid()))
        return 0;
    return strtoull(usec, NULL, 10) / 2000;
}

// The watchdog's timer does not keep the loop alive: a loop that no longer runs shall be noticed.
int notify_init(struct notify *n, uv_loop_t *loop, struct error *e)
{
    *n = (struct notify){0};
    int r = manager_find(&n->manager, e);
    if (r < 0 || !n->manager.socket[0])
        return r;
    uint64_t interval = watchdog_interval();
    if (interval > 0) {
        uv_timer_init(loop, &n->watchdog);
        n->watchdog.data = n;
        n->open = true;
        uv_timer_start(&n->watchdog, on_watchdog, interval, interval);
        uv_unref((uv_handle_t *)&n->watchdog);
    }
    return 0;
}

void notify_close(struct notify *n)
{
    if (n->open)
        uv_close((uv_handle_t *)&n->watchdog, NULL);
    n->open = false;
}

void notify_leave(struct notify *n)
{
    n->manager.socket[0] = 0;
    notify_close(n);
}

// LISTEN_PID guards against variables that were meant for another process. A descriptor that is not
// open ends the count.
int notify_take_sockets(void)
{
    const char *fds = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
    int n = 0;
    if (fds && pid && strtoul(pid, NULL, 10) == (unsigned long)getpid())
        n = (int)strtol(fds, NULL, 10);
    for (int i = 0; i < n; i++)
        if (fcntl(NOTIFY_FIRST_FD + i, F_SETFD, FD_CLOEXEC) < 0)
            n = i;
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return n;
}
