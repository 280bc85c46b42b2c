// The process that announces the server by mDNS (rknnd-announce).
//
// It is tethered: its stdin is a pipe whose other end is `tether`, so it ends when that is closed,
// also by the daemon's death. What it prints goes to the daemon's log, through worker_log.
#include "server/listen/announce.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/board.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "server/runner/plain_environment.h"

#define MAX_PLACES   32
#define MAX_TXT      5
#define AGAIN_MS     1000u // from its end to its next start, twice as long each time
#define MOST_AGAIN_S 1024u

// TXT records: what a client may want to know before it connects (PROTOCOL.md, Discovery).
static unsigned collect_txt(char (*ret)[128], const char *chip, bool tls)
{
    unsigned n = 0;
    char serial[100];
    snprintf(ret[n++], sizeof *ret, "txtvers=1");
    snprintf(ret[n++], sizeof *ret, "chip=%s", chip);
    snprintf(ret[n++], sizeof *ret, "version=%s", RKNND_VERSION);
    snprintf(ret[n++], sizeof *ret, "tls=%s", tls ? "1.3" : "no");
    if (board_serial(serial, sizeof serial))
        snprintf(ret[n++], sizeof *ret, "serial=%s", serial);
    return n;
}

// One announcement is for one kind of addresses: whoever takes none but TLS says so.
static bool announces_tls(const struct listeners *l)
{
    return listeners_find_public(l, false, NULL, 0) == 0;
}

int announce_check(const struct listeners *l, struct error *e)
{
    unsigned n = listeners_find_public(l, announces_tls(l), NULL, 0);
    if (n == 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--announce: other machines can reach none of this server's addresses; "
                         "add --listen tls:0.0.0.0:8911, say");
    if (n > MAX_PLACES)
        return error_set(e, STATUS_PARAM_INVALID, "--announce: more than %d TCP addresses",
                         MAX_PLACES);
    return 0;
}

// ---- the process -------------------------------------------------------------------------------

static void on_again(uv_timer_t *timer);

// The server goes on without an announcement until another one is there.
static void start_later(struct announce *a)
{
    if (a->ending)
        return;
    uv_timer_start(&a->again, on_again, a->wait_ms, 0);
    a->wait_ms = a->wait_ms < MOST_AGAIN_S * 500 ? 2 * a->wait_ms : MOST_AGAIN_S * 1000;
}

static void on_part_closed(struct announce *a)
{
    if (--a->n_open == 0)
        start_later(a);
}

static void on_log_closed(struct worker_log *l)
{
    on_part_closed(container_of(l, struct announce, log));
}

static void on_process_closed(uv_handle_t *handle)
{
    on_part_closed(container_of((uv_process_t *)handle, struct announce, process));
}

static void on_process_exit(uv_process_t *process, int64_t status, int number)
{
    struct announce *a = container_of(process, struct announce, process);
    if (!a->ending)
        log_warn("this server is not announced any more: rknnd-announce ended (exit code %d, "
                 "signal %d); another one starts in %u s",
                 (int)status, number, (unsigned)(a->wait_ms / 1000));
    a->running = false;
    a->tether = fd_close(a->tether);
    worker_log_close(&a->log, on_log_closed);
    uv_close((uv_handle_t *)process, on_process_closed);
}

// libuv wants the handle closed also when the process could not be started. It listens to the
// network, so it has no more of the daemon's environment than workers have.
static int announce_spawn(struct announce *a, char **args, char **environment, int input, int log,
                          struct error *e)
{
    uv_stdio_container_t stdio[] = {
        {.flags = UV_INHERIT_FD, .data.fd = input},
        {.flags = UV_INHERIT_FD, .data.fd = log},
        {.flags = UV_INHERIT_FD, .data.fd = log},
    };
    uv_process_options_t o = {.exit_cb = on_process_exit,
                              .file = args[0],
                              .args = args,
                              .env = environment,
                              .stdio_count = sizeof stdio / sizeof *stdio,
                              .stdio = stdio};
    int r = uv_spawn(a->loop, &a->process, &o);
    if (r == 0)
        return 0;
    uv_close((uv_handle_t *)&a->process, on_process_closed);
    return error_set(e, STATUS_FAIL, "%s: %s", args[0], uv_strerror(r));
}

// Only the child keeps the reading end; ours is close-on-exec, so no other child holds the tether.
static int spawn_tethered(struct announce *a, char **args, struct error *e)
{
    int tether[2], log;
    cleanup(free_environment) char **environment = plain_environment();
    if (!environment)
        return error_no_memory(e, "an environment", 0);
    if (pipe2(tether, O_CLOEXEC) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "a pipe");
    cleanup(fd_close_p) int input = tether[0], ours = tether[1];
    int r = worker_log_init(&a->log, a->loop, &log, e);
    if (r < 0)
        return r;
    worker_log_set_name(&a->log, "announcing");
    a->n_open = 2;
    r = announce_spawn(a, args, environment, input, log, e);
    fd_close(log);
    if (r < 0)
        worker_log_close(&a->log, on_log_closed);
    else
        a->tether = steal_fd(&ours);
    return r;
}

// Arguments point to local arrays, which is enough: the child has its own copy.
static int launch(struct announce *a, struct error *e)
{
    char program[4200], level[8], places[MAX_PLACES][LISTENER_URI_SIZE], txt[MAX_TXT][128];
    char *args[4 + 2 * MAX_TXT + MAX_PLACES];
    bool tls = announces_tls(a->listeners);
    unsigned n = 0, n_txt = collect_txt(txt, a->chip, tls);
    unsigned n_places = listeners_find_public(a->listeners, tls, places, MAX_PLACES);
    snprintf(program, sizeof program, "%s/rknnd-announce", a->folder);
    snprintf(level, sizeof level, "%d", (int)log_level_now());
    args[n++] = program;
    args[n++] = (char *)"--log-level";
    args[n++] = level;
    for (unsigned i = 0; i < n_txt; i++) {
        args[n++] = (char *)"--txt";
        args[n++] = txt[i];
    }
    for (unsigned i = 0; i < n_places && i < MAX_PLACES; i++)
        args[n++] = places[i];
    args[n] = NULL;
    int r = spawn_tethered(a, args, e);
    a->running = r == 0;
    if (r < 0 && a->n_open == 0)
        start_later(a);
    return r;
}

static void on_again(uv_timer_t *timer)
{
    struct announce *a = container_of(timer, struct announce, again);
    struct error e;
    if (launch(a, &e) < 0)
        log_warn("this server is not announced: %s", e.text);
}

// ---- life ---------------------------------------------------------------------------------------

int announce_start(struct announce *a, uv_loop_t *loop, const char *folder, const char *chip,
                   const struct listeners *l, struct error *e)
{
    *a = (struct announce){.loop = loop,
                           .folder = folder,
                           .chip = chip,
                           .listeners = l,
                           .tether = -1,
                           .wait_ms = AGAIN_MS};
    uv_timer_init(loop, &a->again);
    return launch(a, e);
}

void announce_close(struct announce *a)
{
    if (!a->loop || a->ending)
        return;
    a->ending = true;
    uv_close((uv_handle_t *)&a->again, NULL);
    if (!a->running)
        return;
    a->tether = fd_close(a->tether);
    uv_process_kill(&a->process, SIGTERM); // it may be waiting for D-Bus
}
