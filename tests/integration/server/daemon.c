// rknnd as a child.
#include "tests/integration/server/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"

#define MAX_ARGUMENTS 32

static void notify_path(const struct daemon_child *d, char *path, size_t size)
{
    snprintf(path, size, "%s/notify", d->folder);
}

void daemon_init(struct daemon_child *d)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memset(d, 0, sizeof *d);
    d->errors = -1;
    strcpy(d->folder, "/tmp/rknnd-test-XXXXXX");
    assert_non_null(mkdtemp(d->folder));
    snprintf(d->path, sizeof d->path, "%s/socket", d->folder);
    notify_path(d, a.sun_path, sizeof a.sun_path);
    d->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->notify, (struct sockaddr *)&a, sizeof a), 0);
}

void daemon_done(struct daemon_child *d)
{
    char path[128];
    notify_path(d, path, sizeof path);
    unlink(path);
    fd_close(d->notify);
    fd_close(d->errors);
    assert_int_equal(rmdir(d->folder), 0); // it has removed its socket
}

static _Noreturn void become(const struct daemon_child *d, const char *const *arguments, int fd,
                             bool activate, int errors)
{
    const char *argv[MAX_ARGUMENTS + 4] = {"rknnd", "--backend", "null:64:64"};
    char text[128];
    int n = 3;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (*arguments && n < MAX_ARGUMENTS)
        argv[n++] = *arguments++;
    notify_path(d, text, sizeof text);
    setenv("NOTIFY_SOCKET", text, 1);
    dup2(errors, STDERR_FILENO);
    if (fd >= 0)
        dup2(fd, 3);
    if (fd == 3)
        fcntl(3, F_SETFD, 0);
    if (activate) {
        snprintf(text, sizeof text, "%d", (int)getpid());
        setenv("LISTEN_PID", text, 1);
        setenv("LISTEN_FDS", "1", 1);
    }
    execv(RKNND_PROGRAM, (char **)argv);
    _exit(127);
}

void daemon_start(struct daemon_child *d, const char *const *arguments, int fd, bool activate)
{
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    d->pid = fork();
    assert_cmp(d->pid, >=, 0);
    if (d->pid == 0)
        become(d, arguments, fd, activate, pipe_fds[1]);
    close(pipe_fds[1]);
    fd_close(d->errors);
    d->errors = pipe_fds[0];
}

void daemon_wait_for(struct daemon_child *d, const char *word)
{
    char text[1024];
    for (;;) {
        struct pollfd p = {.fd = d->notify, .events = POLLIN};
        if (poll(&p, 1, PEER_PATIENCE_MS) != 1)
            fail_msg("rknnd has not said %s", word);
        ssize_t n = recv(d->notify, text, sizeof text - 1, 0);
        assert_cmp(n, >=, 0);
        text[n] = 0;
        if (strstr(text, word))
            return;
    }
}

static void read_errors(struct daemon_child *d, char *errors, size_t size)
{
    size_t used = 0;
    char rest[512];
    for (;;) {
        bool room = errors && used + 1 < size;
        struct pollfd p = {.fd = d->errors, .events = POLLIN};
        if (poll(&p, 1, PEER_PATIENCE_MS) != 1)
            fail_msg("rknnd does not end");
        ssize_t n = room ? read(d->errors, errors + used, size - used - 1)
                         : read(d->errors, rest, sizeof rest);
        if (n <= 0)
            break;
        used += room ? (size_t)n : 0;
    }
    if (errors)
        errors[used] = 0;
}

int daemon_wait(struct daemon_child *d, char *errors, size_t size)
{
    int status;
    read_errors(d, errors, size);
    assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
