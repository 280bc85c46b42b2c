// The service manager's side channel (sd_notify(3), sd_listen_fds(3)), without its library. Called
// on the loop's thread; no function blocks, and a message that cannot be sent is lost.
#include "server/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

static void on_watchdog(uv_timer_t *timer)
{
    notify_send(timer->data, "WATCHDOG=1");
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

// The variable is removed, so that workers do not report in the daemon's name. The watchdog's timer
// does not keep the loop alive: a loop that no longer runs shall be noticed.
int notify_init(struct notify *n, uv_loop_t *loop, struct error *e)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *n = (struct notify){0};
    if (!path || !*path)
        return 0;
    if (strlen(path) >= sizeof n->socket || (path[0] != '/' && path[0] != '@'))
        return error_set(e, STATUS_PARAM_INVALID, "NOTIFY_SOCKET \"%s\" is not a socket's path",
                         path);
    strcpy(n->socket, path);
    unsetenv("NOTIFY_SOCKET");
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
    n->socket[0] = 0;
    notify_close(n);
}

// A datagram to the manager. A path that begins with @ is in the abstract namespace, which starts
// with a NUL.
void notify_send(struct notify *n, const char *format, ...)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;
    if (!n->socket[0])
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t length = strlen(n->socket);
    memcpy(address.sun_path, n->socket, length);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0; // in the abstract namespace
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
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
