// posix_spawn() as glibc and musl have it: the child borrows the parent's memory until its exec(),
// as with vfork(), so that its cost does not grow with the daemon. The parent waits until then,
// which on a busy machine may take the child a tenth of a second.
//
// child_start_soon() does not wait. The child borrows the memory, too, with the loop's thread at
// work in it: it has a stack of its own, and does nothing that has to do with the thread that it
// was made by, whose errno and state of cancellation it would have. So no call of it may fail, take
// a lock, or be one that cancellation looks at; what could fail is done before.
//
// libuv tells of SIGCHLD, for whichever child it was; each asks about its own.
#include "server/runner/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "server/turns.h"

#define CHILD_FD    3
#define STACK_BYTES 65536
#define NOT_STARTED 127 // exit code, as shells have it

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

// No signal is ignored or handled, and only SIGHUP is blocked: it may go to all processes of a
// service, and the next daemon is to read its configuration again, not to end of it.
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, blocked;
    sigfillset(&all);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    int r = posix_spawnattr_setsigdefault(attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attributes, &blocked);
    return r ? r
             : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

// Returns an errno.
static int spawn(struct child *c, const struct child_words *w, int fd, int log_fd)
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
            r = posix_spawn(&c->pid, w->program, &files, &attributes, w->args,
                            w->environment ? w->environment : environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return r;
}

// ---- without a wait -----------------------------------------------------------------------------

// What the child is to become; at the lower end of its stack.
struct start {
    const char *program;
    char *const *args, *const *environment;
    int null, fd, log_fd; // above all targets
};

// The kernel's struct, all zeros: SIG_DFL. sigaction() of glibc 2.41 takes a lock for SIGABRT,
// which a child that is killed then would leave locked in the daemon.
static void use_default(int number)
{
    static const unsigned long usual[8];
    syscall(SYS_rt_sigaction, number, usual, NULL, _NSIG / 8);
}

// The child. All signals are blocked when it begins, so that no handler runs in it; SIGHUP stays.
static int become(void *stack)
{
    const struct start *s = stack;
    sigset_t blocked;
    for (int n = 1; n < _NSIG; n++)
        if (n != SIGKILL && n != SIGSTOP)
            use_default(n);
    syscall(SYS_dup3, s->null, STDIN_FILENO, 0);
    syscall(SYS_dup3, s->log_fd, STDOUT_FILENO, 0);
    syscall(SYS_dup3, s->log_fd, STDERR_FILENO, 0);
    syscall(SYS_dup3, s->fd, CHILD_FD, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    execve(s->program, s->args, s->environment);
    _exit(NOT_STARTED);
}

// Returns an errno. The stack is there until child_close(): nobody says when the child has left it.
static int spawn_soon(struct child *c, const struct start *start)
{
    sigset_t all, old;
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return errno;
    memcpy(stack, start, sizeof *start);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int pid = clone(become, (char *)stack + STACK_BYTES, CLONE_VM | SIGCHLD, stack);
    int r = pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0) {
        munmap(stack, STACK_BYTES);
        return r;
    }
    c->pid = pid;
    c->stack = stack;
    return 0;
}

// A debugger takes its breakpoints out of the memory of a child that it does not follow. That of
// vfork() it knows to be the parent's, too.
static bool is_traced(void)
{
    char text[512];
    cleanup(fd_close_p) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    const char *tracer = strstr(text, "\nTracerPid:");
    return tracer && strtol(tracer + strlen("\nTracerPid:"), NULL, 10) > 0;
}

// An emulated kernel may know vfork() and nothing else that borrows memory.
static int spawn_anyhow(struct child *c, const struct child_words *w, int fd, int log_fd)
{
    cleanup(fd_close_p) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cleanup(fd_close_p) int own_null = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, CHILD_FD + 1);
    if (own_null < 0)
        return errno;
    const struct start start = {.program = w->program,
                                .args = w->args,
                                .environment = w->environment ? w->environment : environ,
                                .null = own_null,
                                .fd = fd,
                                .log_fd = log_fd};
    int r = CHILD_ALWAYS_WAITS || is_traced() ? EINVAL : spawn_soon(c, &start);
    return r == EINVAL ? spawn(c, w, fd, log_fd) : r;
}

// ---- the start ----------------------------------------------------------------------------------

// Returns an errno.
typedef int (*spawn_way)(struct child *c, const struct child_words *w, int fd, int log_fd);

void child_init(struct child *c, uv_loop_t *loop)
{
    *c = (struct child){.pid = 0};
    uv_signal_init(loop, &c->watch);
}

// SIGCHLD is watched for before there is a child that can end.
static int start_by(spawn_way way, struct child *c, const struct child_words *w, struct error *e)
{
    c->exited = w->exited;
    cleanup(fd_close_p) int own_fd = fcntl(w->fd, F_DUPFD_CLOEXEC, CHILD_FD + 1);
    cleanup(fd_close_p) int own_log = fcntl(w->log_fd, F_DUPFD_CLOEXEC, CHILD_FD + 1);
    int r = own_fd < 0 || own_log < 0 ? errno : -uv_signal_start(&c->watch, on_signal, SIGCHLD);
    if (r == 0)
        r = way(c, w, own_fd, own_log);
    if (r == 0)
        return 0;
    uv_signal_stop(&c->watch);
    c->pid = 0;
    if (r == EAGAIN)
        return error_set_errno(e, STATUS_MALLOC_FAIL, r,
                               "cannot start a process (ulimit -u, LimitNPROC=, TasksMax=)");
    return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, r, "cannot start a process");
}

int child_start(struct child *c, const struct child_words *w, struct error *e)
{
    return start_by(spawn, c, w, e);
}

int child_start_soon(struct child *c, const struct child_words *w, struct error *e)
{
    return start_by(spawn_anyhow, c, w, e);
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
    if (c->stack)
        munmap(c->stack, STACK_BYTES);
    c->stack = NULL;
    uv_close((uv_handle_t *)&c->watch, on_closed);
}
