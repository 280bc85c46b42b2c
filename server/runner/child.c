// posix_spawn() as glibc and musl have it: the child borrows the parent's memory until its exec(),
// as with vfork(), so that its cost does not grow with the daemon.
//
// libuv tells of SIGCHLD, for whichever child it was; each asks about its own.
#include "server/runner/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "server/turns.h"

#define CHILD_FD 3

static void on_signal(uv_signal_t *watch, int number)
{
    struct child *c = container_of(watch, struct child, watch);
    int status;
    (void)number;
    if (c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    turns_mark(watch->loop, "the end of a worker");
    uv_signal_stop(watch);
    c->pid = 0;
    c->exited(c, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

// Where descriptors go. `fd` and `log_fd` are above all targets.
static int add_files(posix_spawn_file_actions_t *files, int fd, int log_fd)
{
    int r = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(files, log_fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(files, log_fd, STDERR_FILENO);
    return r == 0 ? posix_spawn_file_actions_adddup2(files, fd, CHILD_FD) : r;
}

// No signal is blocked, ignored or handled.
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int r = posix_spawnattr_setsigdefault(attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attributes, &none);
    return r ? r
             : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

// Returns an errno.
static int spawn(struct child *c, const char *program, char *const args[], int fd, int log_fd)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return r;
    r = posix_spawnattr_init(&attributes);
    if (r == 0) {
        r = add_files(&files, fd, log_fd);
        if (r == 0)
            r = set_signals(&attributes);
        if (r == 0)
            r = posix_spawn(&c->pid, program, &files, &attributes, args,
                            c->environment ? c->environment : environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return r;
}

// SIGCHLD is watched for before there is a child that can end.
int child_start(struct child *c, uv_loop_t *loop, const char *program, char *const args[], int fd,
                int log_fd, void (*exited)(struct child *c, int code, int signal), struct error *e)
{
    *c = (struct child){.exited = exited, .environment = c->environment};
    uv_signal_init(loop, &c->watch);
    cleanup(fd_close_p) int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FD + 1);
    cleanup(fd_close_p) int own_log = fcntl(log_fd, F_DUPFD_CLOEXEC, CHILD_FD + 1);
    int r = own_fd < 0 || own_log < 0 ? errno : -uv_signal_start(&c->watch, on_signal, SIGCHLD);
    if (r == 0)
        r = spawn(c, program, args, own_fd, own_log);
    if (r == 0)
        return 0;
    uv_signal_stop(&c->watch);
    c->pid = 0;
    return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, r, "cannot start a process");
}

void child_kill(struct child *c)
{
    if (c->pid > 0)
        kill(c->pid, SIGKILL);
}

static void on_closed(uv_handle_t *handle)
{
    struct child *c = container_of((uv_signal_t *)handle, struct child, watch);
    c->closed(c);
}

void child_close(struct child *c, void (*closed)(struct child *c))
{
    c->closed = closed;
    uv_close((uv_handle_t *)&c->watch, on_closed);
}
