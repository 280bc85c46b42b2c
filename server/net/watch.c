// libuv adds a descriptor to its epoll set when it polls the next time, and ends the process if
// that fails, unless it finds it there already. So it is put there first, where a failure can be
// told of.
#include "server/net/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "base/cleanup.h"

static void on_nothing(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

static void on_closed(uv_handle_t *poll)
{
    free(poll);
}

// Its table is as long as the highest descriptor that was ever watched.
static int widen_table(uv_loop_t *loop, int highest, struct error *e)
{
    cleanup(fd_close_p) int set = epoll_create1(EPOLL_CLOEXEC); // something that can be watched
    cleanup(fd_close_p) int fd = set < 0 ? -1 : fcntl(set, F_DUPFD_CLOEXEC, highest);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "descriptor %d", highest);
    uv_poll_t *poll = malloc(sizeof *poll);
    if (!poll)
        return error_no_memory(e, "a descriptor", sizeof *poll);
    int r = uv_poll_init(loop, poll, fd);
    if (r < 0) {
        free(poll);
        return error_set(e, STATUS_FAIL, "cannot watch descriptor %d: %s", fd, uv_strerror(r));
    }
    uv_poll_start(poll, UV_READABLE, on_nothing);
    uv_close((uv_handle_t *)poll, on_closed);
    return 0;
}

int watch_prepare(uv_loop_t *loop, struct error *e)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "the limit of descriptors");
    rlim_t n = limit.rlim_cur < WATCH_DESCRIPTORS ? limit.rlim_cur : WATCH_DESCRIPTORS;
    return widen_table(loop, (int)n - 1, e);
}

int watch_start(uv_poll_t *poll, int events, uv_poll_cb ready, struct error *e)
{
    uv_os_fd_t fd;
    int r = uv_fileno((uv_handle_t *)poll, &fd);
    if (r == 0)
        r = uv_poll_start(poll, events, ready);
    if (r < 0)
        return error_set(e, STATUS_FAIL, "cannot watch descriptor %d: %s", fd, uv_strerror(r));
    struct epoll_event none = {.data.fd = fd}; // libuv sets the events when it polls
    if (epoll_ctl(uv_backend_fd(poll->loop), EPOLL_CTL_ADD, fd, &none) == 0 || errno == EEXIST)
        return 0;
    r = error_set_errno(e, STATUS_FAIL, errno, "cannot watch descriptor %d", fd);
    uv_poll_stop(poll);
    return r;
}
