// rknnd: the program's entry. One binary has several roles, chosen by its options:
//
//   rknnd                       the daemon: serves models to clients (server.h)
//   rknnd --relay usb:          on a PC: passes connections on to a board (usb/relay.h)
//   rknnd --worker FD           started by the daemon: runs one model (worker/worker.h)
//   rknnd --guard FD            started by a relay: usb/usb_guard.h
//
// The exit code is 0, 1 for a failure, 2 for wrong options.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/options/option_table.h"
#include "base/process/stack.h"
#include "base/sha256.h"
#include "server/config/config_check.h"
#include "server/config/options.h"
#include "server/config/options_parse.h"
#include "server/net/watch.h"
#include "server/server.h"
#include "server/signals.h"
#include "server/usb/relay.h"
#include "server/usb/usb_guard.h"
#include "worker/worker.h"

#define ARENAS_MAX  8192 // as many as there are ever threads
#define LARGE_PIECE (1 << 20)

// What the start takes, without clients and models.
#define MIN_DESCRIPTORS 32

enum exit_code { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct daemon {
    uv_loop_t loop;
    struct server server;
    struct signals signals;
};

// The first SIGTERM or SIGINT finishes running work, the second ends at once.
static void on_end(void *owner)
{
    struct server *s = owner;
    if (s->state == SERVER_DRAINING)
        server_stop(s);
    else
        server_drain(s);
}

static void on_hangup(void *owner)
{
    server_reload(owner);
}

static void on_upgrade(void *owner)
{
    server_upgrade(owner);
}

// Runs until the server has stopped and every handle is closed. The signal handles do not keep the
// loop alive; they are closed last, so that a second signal works until then.
static void daemon_run(struct daemon *d)
{
    uv_run(&d->loop, UV_RUN_DEFAULT);
    signals_close(&d->signals);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    server_done(&d->server);
}

// The one place that logs why the daemon failed.
static int exit_code(const struct error *failed)
{
    if (failed->code == 0)
        return EXIT_GOOD;
    log_error("%s", failed->text);
    return failed->code == STATUS_PARAM_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static int daemon_relay(const struct options *o)
{
    struct error e = {0};
    relay_run(o, &e);
    return exit_code(&e);
}

// The program that has started this daemon hears why it cannot run (client/transport/spawn.h).
static void tell_starter(int fd, const struct error *failed)
{
    if (fd >= 0 && failed->code)
        send(fd, failed->text, strlen(failed->text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Else whatever comes first would fail, and say neither how many it takes nor where that is set.
static int check_descriptors(struct error *e)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= MIN_DESCRIPTORS)
        return 0;
    return error_set(e, STATUS_MALLOC_FAIL,
                     "the process may have %llu files open (ulimit -n, LimitNOFILE=): it takes %d "
                     "to start, and one or more for each connection, memory and model",
                     (unsigned long long)limit.rlim_cur, MIN_DESCRIPTORS);
}

// libcrypto and the C library's user database start when they are first needed, and cannot fail
// then: so it is now, before clients have taken what there is.
static int start_libraries(struct error *e)
{
    uint8_t hash[SHA256_SIZE];
    getpwuid(geteuid());
    return sha256("", 0, hash, e);
}

// With --adopt the socket is duplicated: the server closes its own copy before the starter is told.
static int daemon_serve(struct options *o)
{
    struct daemon d = {.signals = {.ended = on_end, .hung_up = on_hangup, .upgrade = on_upgrade}};
    struct error e = {0};
    cleanup(fd_close_p) int starter =
        o->adopt_fd >= 0 ? fcntl((int)o->adopt_fd, F_DUPFD_CLOEXEC, 0) : -1;
    d.signals.owner = &d.server;
    int r = check_descriptors(&e);
    if (r == 0)
        r = start_libraries(&e);
    if (r < 0) {
        tell_starter(starter, &e);
        return exit_code(&e);
    }
    r = uv_loop_init(&d.loop);
    if (r < 0) {
        log_error("no event loop: %s", uv_strerror(r));
        return EXIT_FAILED;
    }
    if (signals_init(&d.signals, &d.loop, &e) < 0) {
        uv_loop_close(&d.loop);
        return exit_code(&e);
    }
    if (server_init(&d.server, &d.loop, o, &e) < 0)
        d.server.failed = e;
    daemon_run(&d);
    r = uv_loop_close(&d.loop);
    if (r < 0)
        log_error("at the end: %s", uv_strerror(r));
    tell_starter(starter, &d.server.failed);
    int code = exit_code(&d.server.failed);
    return r < 0 ? EXIT_FAILED : code;
}

// Words on standard output are for people and scripts that ask; the exit code says the same.
static int daemon_check(const struct options *o)
{
    struct error e;
    if (config_check(o, &e) < 0) {
        fprintf(stderr, "rknnd: %s\n", e.text);
        return EXIT_USAGE;
    }
    printf("rknnd: these options are good\n");
    return EXIT_GOOD;
}

// Each connection, memory and model needs a descriptor. The hard limit is the administrator's.
static void set_fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max < WATCH_DESCRIPTORS ? limit.rlim_max : WATCH_DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// What calls abort() has no words: libuv and the C library's user database, when they lack
// something while they start. Then as without this.
static void on_abort(int number)
{
    static const char words[] =
        "rknnd: ended by abort(); unless a line above says why, libuv or the C library lacked "
        "memory, descriptors or threads\n";
    ssize_t n = write(STDERR_FILENO, words, sizeof words - 1);
    (void)n;
    signal(number, SIG_DFL);
    raise(number);
}

// The roles of child processes come before what only the daemon needs. Each thread has a malloc
// arena of its own, so that none has the lock of the loop's while it is kept from the processor:
// threads that share arenas share that one, too. Large pieces are no arena's, and go back when they
// are freed.
static int daemon_start(struct options *o, int argc, char **argv)
{
    struct error e;
    if (!options_default_log_level()) {
        log_error("RKNN_SERVER_LOGLEVEL \"%s\" is no level: " LOG_LEVELS,
                  getenv("RKNN_SERVER_LOGLEVEL"));
        return EXIT_USAGE;
    }
    int r = options_parse(o, argc, argv, &e);
    if (r == OPTION_TABLE_END)
        return EXIT_GOOD;
    if (r < 0) {
        fprintf(stderr, "rknnd: %s\n", e.text);
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file beyond ulimit -f, LimitFSIZE=: the call fails, in words
    if (o->guard_fd >= 0)
        return usb_guard_run((int)o->guard_fd);
    if (o->worker_fd >= 0)
        return worker_main((int)o->worker_fd, o->module_dir);
    if (o->check_config)
        return daemon_check(o);
    log_never_wait();
    signal(SIGABRT, on_abort);
    set_fd_limit();
    mallopt(M_ARENA_MAX, ARENAS_MAX);
    mallopt(M_MMAP_THRESHOLD, LARGE_PIECE);
    return o->relay ? daemon_relay(o) : daemon_serve(o);
}

// All options are more than a small stack has room for.
static __attribute__((noinline)) int daemon_main(int argc, char **argv)
{
    struct options o;
    options_init(&o);
    int code = daemon_start(&o, argc, argv);
    options_done(&o);
    return code;
}

int main(int argc, char **argv)
{
    struct error e;
    fd_keep_standard();
    signals_hold();
    if (stack_ensure(&e) == 0)
        return daemon_main(argc, argv);
    log_error("%s", e.text);
    return EXIT_FAILED;
}
