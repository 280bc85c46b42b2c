// Waiting for a fence before a run. Linux fences are files (linux/sync_file.h) that become readable
// when the work they stand for is done, so poll() does; any other pollable file works too. The
// context is unlocked meanwhile.
#include "client/api/fence.h"

#include <errno.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "client/wait_end.h"

// A sync_file knows whether its work failed (a negative status). For other files the ioctl fails,
// and readable is all there is to know.
static int fence_check(int fd, struct error *e)
{
    struct sync_file_info info = {0};
    if (ioctl(fd, SYNC_IOC_FILE_INFO, &info) == 0 && info.status < 0)
        return error_set_errno(e, STATUS_FAIL, -info.status, "the run's fence %d", fd);
    return 0;
}

static int wait_for(int fd, uint64_t until, struct error *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;
    do {
        uint64_t now = clock_ms(), before = interrupt_before(now, until);
        r = poll(&p, 1, clock_poll_ms(now, before));
        if (r > 0 || (r < 0 && errno != EINTR))
            break;
        if (interrupt_asked())
            return error_set(e, STATUS_FAIL,
                             "the program has interrupted the wait for fence %d; nothing was run",
                             fd);
    } while (clock_ms() < until);
    if (r < 0 && errno != EINTR)
        return error_set_errno(e, STATUS_FAIL, errno, "waiting for fence %d", fd);
    if (r <= 0)
        return error_set(e, STATUS_TIMEOUT, "fence %d has not come in time; nothing was run", fd);
    if (!(p.revents & POLLIN))
        return error_set(e, STATUS_PARAM_INVALID, "fence_fd %d is no fence", fd);
    return fence_check(fd, e);
}

int fence_wait(struct context *c, const rknn_run_extend *extend, uint64_t until, struct error *e)
{
    if (!(c->flags & RKNN_FLAG_FENCE_IN_OUTSIDE))
        return 0;
    if (!extend || extend->fence_fd < -1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the context was opened for fences (flag 0x%x): rknn_run needs an extend "
                         "with a fence_fd, or -1 in it",
                         RKNN_FLAG_FENCE_IN_OUTSIDE);
    if (extend->fence_fd == -1)
        return 0;
    int fd = extend->fence_fd;
    context_unlock(c);
    int r = wait_for(fd, until, e);
    context_lock(c);
    return r;
}
