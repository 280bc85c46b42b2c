// The child answers over a pipe. Its daemons are in its process group, and are ended with it; one
// that a driver holds stays until the driver lets it go.
#include "tools/board/probe_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tools/ui/interrupt.h"

#define GRACE_MS   5000u // for a process that was killed
#define LOOK_MS    200u
#define ANSWER_MAX (64u << 20)

// What has come over the pipe so far.
struct answer {
    char *text;
    size_t size, room;
};

// Never returns. It dies with its parent, too.
static void child(watch_function *run, void *user, int out, int log_fd)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (log_fd >= 0)
        dup2(log_fd, STDERR_FILENO);
    json_t *answer = run(user);
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    size_t size = text ? strlen(text) : 0, done = 0;
    while (done < size) {
        ssize_t n = write(out, text + done, size - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    _exit(text && done == size ? 0 : 1);
}

// False: nothing more will come.
// An answer larger than is sensible is cut, and then is no JSON.
static bool read_some(int fd, struct answer *a)
{
    if (a->room - a->size < 4096 && a->room < ANSWER_MAX) {
        char *more = realloc(a->text, a->room * 2 + 65536);
        if (!more)
            return false;
        a->text = more;
        a->room = a->room * 2 + 65536;
    }
    ssize_t n = read(fd, a->text + a->size, a->room - a->size - 1);
    if (n > 0)
        a->size += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

// Until it closes its end, or the time is over. Children of the child may hold that end longer:
// the child's own end counts.
static enum watch_end collect(pid_t pid, int fd, uint64_t until_ms, struct answer *a, int *status)
{
    for (bool open = true;;) {
        struct pollfd p = {.fd = open ? fd : -1, .events = POLLIN};
        uint64_t now = clock_ms();
        if (interrupt_seen())
            return WATCH_STOPPED;
        if (now >= until_ms)
            return WATCH_LATE;
        if (poll(&p, 1, (int)(until_ms - now < LOOK_MS ? until_ms - now : LOOK_MS)) > 0)
            open = read_some(fd, a);
        else if (waitpid(pid, status, WNOHANG) == pid)
            return WATCH_DONE;
        if (!open && waitpid(pid, status, WNOHANG) == pid)
            return WATCH_DONE;
    }
}

// False: it is still there after a while, which only a driver can bring about.
static bool end_group(pid_t pid, int *status)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    for (uint64_t until = clock_ms() + GRACE_MS; clock_ms() < until;) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        poll(NULL, 0, 20);
    }
    return false;
}

// The pipe's end is not the child's end: a daemon of its may hold that longer. What counts is that
// the child itself has ended, and whether its answer can be read.
struct watched watch_run(watch_function *run, void *user, uint32_t limit_ms, int log_fd)
{
    struct watched ret = {.end = WATCH_DIED};
    struct answer a = {0};
    int ends[2], status = 0;
    uint64_t began = clock_ns();
    if (pipe(ends) < 0)
        return ret;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(run, user, ends[1], log_fd);
    }
    close(ends[1]);
    if (pid > 0)
        ret.end = collect(pid, ends[0], clock_ms() + limit_ms, &a, &status);
    if (pid > 0 && ret.end == WATCH_DONE)
        kill(-pid, SIGKILL); // what it left behind
    else if (pid > 0 && !end_group(pid, &status))
        ret.end = WATCH_STUCK;
    close(ends[0]);
    if (ret.end == WATCH_DONE && a.size && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        ret.answer = json_loadb(a.text, a.size, 0, NULL);
    if (ret.end == WATCH_DONE && !ret.answer) {
        ret.end = WATCH_DIED;
        ret.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    free(a.text);
    ret.ns = clock_ns() - began;
    return ret;
}
