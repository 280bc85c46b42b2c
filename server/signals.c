// SIGTERM, SIGINT, SIGHUP and SIGUSR2, read from a descriptor on the loop. They stay blocked for as
// long as the process lives, in all of its threads: so there is no moment, at its start or end, at
// which one has its default action.
#include "server/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "base/fd.h"

static void block_only(const int *numbers, size_t n, sigset_t *ret)
{
    sigemptyset(ret);
    for (size_t i = 0; i < n; i++)
        sigaddset(ret, numbers[i]);
    pthread_sigmask(SIG_SETMASK, ret, NULL);
}

// Whoever starts this process may block signals, and would pass that on: without SIGCHLD nobody
// says that a worker has ended.
void signals_hold(void)
{
    static const int asking[] = {SIGHUP, SIGUSR2};
    sigset_t set;
    block_only(asking, sizeof asking / sizeof *asking, &set);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct signals *s = poll->data;
    struct signalfd_siginfo got;
    (void)status;
    (void)events;
    if (read(s->fd, &got, sizeof got) != sizeof got)
        return;
    if (got.ssi_signo == SIGHUP)
        s->hung_up(s->owner);
    else if (got.ssi_signo == SIGUSR2)
        s->upgrade(s->owner);
    else
        s->ended(s->owner);
}

// The handle does not keep the loop alive: the daemon ends when its work does.
int signals_init(struct signals *s, uv_loop_t *loop, struct error *e)
{
    static const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
    sigset_t set;
    block_only(all, sizeof all / sizeof *all, &set);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "no descriptor of signals");
    int r = uv_poll_init(loop, &s->poll, s->fd);
    if (r < 0) {
        s->fd = fd_close(s->fd);
        return error_set(e, STATUS_FAIL, "signals cannot be waited for: %s", uv_strerror(r));
    }
    s->poll.data = s;
    uv_poll_start(&s->poll, UV_READABLE, on_readable);
    uv_unref((uv_handle_t *)&s->poll);
    return 0;
}

void signals_close(struct signals *s)
{
    uv_close((uv_handle_t *)&s->poll, NULL);
    s->fd = fd_close(s->fd);
}
