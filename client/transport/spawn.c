// Private daemons: finding the program, starting it detached, and handing it connections.
//
//     this process ── control: a socket pair ──► rknnd --adopt 3
//         a connection = one byte 'c' with a descriptor, one end of a new socket pair
//         the daemon's last words before it ends come the other way, as text
//
// The daemon ends when `control` closes. s->lock is held while a daemon is started or handed a
// connection; threads that want the same daemon wait for it.
#include "client/transport/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file/find_daemon.h"
#include "client/limits.h"

#define CONTROL_FD 3 // in the daemon
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LOGLEVEL   "RKNN_SERVER_LOGLEVEL"

void spawn_init(struct spawn *s)
{
    pthread_mutex_init(&s->lock, NULL);
    s->control = -1;
}

void spawn_done(struct spawn *s)
{
    fd_close(s->control);
    pthread_mutex_destroy(&s->lock);
}

// ---- where the program is ----------------------------------------------------------------------

// The installation of this library has one.
static int find_program(char *path, struct error *e)
{
    Dl_info info;
    char library[PATH_MAX];
    bool known = dladdr((void *)spawn_init, &info) && realpath(info.dli_fname, library);
    return find_daemon(known ? library : NULL, path, e);
}

// ---- starting it -------------------------------------------------------------------------------

// This process's environment, and a log level of 0 unless the user has set one. Only the array is
// allocated; the strings are borrowed until the daemon is started.
static char **make_environment(void)
{
    static char quiet[] = LOGLEVEL "=0";
    size_t n = 0;
    while (environ && environ[n])
        n++;
    char **list = calloc(n + 2, sizeof *list);
    if (!list)
        return NULL;
    if (n > 0)
        memcpy(list, environ, n * sizeof *list);
    if (!getenv(LOGLEVEL))
        list[n] = quiet;
    return list;
}

// Runs posix_spawn() in a short-lived child, so that the daemon is an orphan at once and never a
// child of the program. clone() without an exit signal makes the child invisible to the program's
// SIGCHLD handler and wait() calls: only a wait with __WCLONE sees it (clone(2)). It ends by the
// bare system call: _exit() of a sanitizer's runtime would look at threads that the child does not
// have, and take locks that they held. Returns 0 or an errno, which is the child's exit code.
static int spawn_detached(const char *path, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const *arguments,
                          char *const *environment)
{
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child == 0) {
        pid_t daemon;
        syscall(SYS_exit_group,
                posix_spawn(&daemon, path, actions, attributes, arguments, environment));
    }
    int status, r = child < 0 ? -1 : 0;
    while (r == 0 && (r = waitpid(child, &status, (int)__WCLONE)) < 0 && errno == EINTR)
        r = 0;
    if (r < 0)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

// Starts the daemon with only the descriptors it needs, all signals unblocked and at their
// defaults, in a session of its own, so that the terminal's signals do not reach it.
static int start_with(const char *path, const struct spawn_command *command, int control,
                      char **environment)
{
    char *arguments[] = {(char *)"rknnd",
                         (char *)command->option,
                         (char *)command->value,
                         (char *)"--adopt",
                         (char *)"3",
                         (char *)"--peer-timeout-ms",
                         (char *)TEXT(LIMIT_SILENCE_MS),
                         (char *)(command->job_ms ? "--job-timeout-ms" : NULL),
                         (char *)command->job_ms,
                         NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (command->silent && !getenv(LOGLEVEL))
        r = r ? r
              : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&actions, control, CONTROL_FD);
    r = r ? r : posix_spawn_file_actions_addclosefrom_np(&actions, CONTROL_FD + 1);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    if (r == 0)
        r = spawn_detached(path, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

int spawn_set_value(struct spawn_command *c, struct error *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->value, sizeof c->value, format, args);
    va_end(args);
    return (size_t)n < sizeof c->value
               ? 0
               : error_set(e, STATUS_PARAM_INVALID, "this name is too long");
}

// On success s->control is this process's end of a new socket pair.
static int spawn_start(struct spawn *s, const struct spawn_command *command, struct error *e)
{
    char path[PATH_MAX];
    int r = find_program(path, e);
    if (r < 0)
        return r;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "a socket pair");
    cleanup(fd_close_p) int ours = pair[0], theirs = pair[1];
    cleanup(free_p) char **environment = make_environment();
    if (!environment)
        return error_no_memory(e, "the environment of rknnd", 0);
    int failed = start_with(path, command, theirs, environment);
    if (failed)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, failed, "%s cannot be started", path);
    s->control = steal_fd(&ours);
    return 0;
}

// ---- connecting --------------------------------------------------------------------------------

// Makes a socket pair and passes one end to the daemon. Returns the other end, or -errno. The byte
// is there because a message needs one to carry a descriptor (unix(7)).
static int pass_connection(int control)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    struct iovec byte = {(char[]){'c'}, 1};
    ssize_t n = fd_send(control, &byte, 1, &pair[1], 1);
    fd_close(pair[1]);
    if (n < 0)
        fd_close(pair[0]);
    return n < 0 ? (int)n : pair[0];
}

// One whose other end has gone.
static int broken_connection(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    fd_close(pair[1]);
    return pair[0];
}

// A daemon that has ended by now may have left its last words: that the connection breaks has them
// read.
static int start_and_pass(struct spawn *s, const struct spawn_command *command, struct error *e)
{
    s->control = fd_close(s->control);
    int r = spawn_start(s, command, e);
    if (r < 0)
        return r;
    s->n_started++;
    r = pass_connection(s->control);
    if (r == -EPIPE || r == -ECONNRESET)
        r = broken_connection();
    if (r < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r,
                               "rknnd did not start well (RKNN_SERVER_LOGLEVEL=3 shows why)");
    return r;
}

// EPIPE or ECONNRESET: the daemon has ended since; another is started.
int spawn_connect(struct spawn *s, const struct spawn_command *command, struct spawn_ticket *ret,
                  struct error *e)
{
    pthread_mutex_lock(&s->lock);
    int r = s->control < 0 ? -EPIPE : pass_connection(s->control);
    ret->fresh = r == -EPIPE || r == -ECONNRESET; // does not run, or not any more
    if (ret->fresh)
        r = start_and_pass(s, command, e);
    else if (r < 0)
        r = error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r, "a private connection");
    ret->number = s->n_started;
    pthread_mutex_unlock(&s->lock);
    return r;
}

// Reads until the daemon closes its end, which it does by ending. Only if it is still this ticket's
// daemon: another thread may have started the next one.
void spawn_last_words(struct spawn *s, const struct spawn_ticket *ticket, char *ret, size_t size)
{
    uint64_t until = clock_ms() + LIMIT_START_MS;
    size_t n = 0;
    ssize_t part = 1;
    pthread_mutex_lock(&s->lock);
    while (s->n_started == ticket->number && s->control >= 0 && n + 1 < size && part > 0) {
        struct pollfd p = {s->control, POLLIN, 0};
        part = poll(&p, 1, clock_poll_ms(clock_ms(), until));
        if (part > 0)
            part = recv(s->control, ret + n, size - n - 1, MSG_DONTWAIT);
        n += part > 0 ? (size_t)part : 0;
    }
    pthread_mutex_unlock(&s->lock);
    ret[n] = 0;
}

void spawn_forget(struct spawn *s, const struct spawn_ticket *ticket)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_started == ticket->number)
        s->control = fd_close(s->control);
    pthread_mutex_unlock(&s->lock);
}
