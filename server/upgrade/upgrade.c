// All that may fail is tried while this daemon still accepts: the successor gets copies of the
// listening sockets, reads its options and opens its backend, and only its READY pauses accepting
// here. What arrives between that and SERVING waits in the sockets' backlogs, so nobody is refused;
// whatever goes wrong until then is undone, and has cost nothing but the successor's process.
//
// Behind SERVING there is no way back, and this daemon is a server for its sessions alone:
// connections to them reach the successor first, which hands them here (JOIN), and those that are
// not known here go back (BACK).
#include "server/upgrade/upgrade.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/config/options.h"
#include "server/listen/listener.h"
#include "server/metrics/http_process.h"
#include "server/net/connection.h"
#include "server/net/watch.h"
#include "server/notify.h"
#include "server/upgrade/succession.h"

#define CHILD_FD    "3"
#define MAX_WORDS   512
#define END_MS      2000  // from the end of what it says to its exit code
#define COUNTS_MS   1000  // from one telling of what sessions have added to the next
#define PATIENCE_MS 10000 // beyond what a backend may take to answer

// ---- what the new one is started with -----------------------------------------------------------

// The words of this one, of which the first two may be those of an earlier upgrade.
static int make_words(const struct options *o, char *ret[MAX_WORDS], struct error *e)
{
    int from = o->takeover_fd >= 0 ? 3 : 1, n = 0;
    if (o->argc - from + 4 > MAX_WORDS)
        return error_set(e, STATUS_FAIL, "the command line has more than %d words", MAX_WORDS);
    ret[n++] = o->argv[0];
    ret[n++] = (char *)"--takeover";
    ret[n++] = (char *)CHILD_FD;
    for (int i = from; i < o->argc; i++)
        ret[n++] = o->argv[i];
    ret[n] = NULL;
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// Ours, with the manager's socket, which this one has taken out, and a watchdog that is not meant
// for this process alone.
static char **make_environment(char manager[static 128], const struct notify *notify)
{
    size_t n = 0, at = 0;
    while (environ[n])
        n++;
    char **ret = calloc(n + 2, sizeof *ret);
    if (!ret)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!begins(environ[i], "WATCHDOG_PID="))
            ret[at++] = environ[i];
    if (notify->manager.socket[0]) {
        snprintf(manager, 128, "NOTIFY_SOCKET=%s", notify->manager.socket);
        ret[at++] = manager;
    }
    return ret;
}

// ---- the end of it ------------------------------------------------------------------------------

static void stop_talking(struct upgrade *u)
{
    if (u->watched)
        uv_close((uv_handle_t *)&u->poll, NULL);
    u->watched = false;
    u->fd = fd_close(u->fd);
    uv_timer_stop(&u->patience);
}

static void on_child_closed(struct child *c)
{
    struct upgrade *u = container_of(c, struct upgrade, child);
    u->has_child = false;
}

// Everything is as before.
static void undo(struct upgrade *u, const char *why)
{
    bool paused = u->state == UPGRADE_GIVING;
    log_error("no upgrade, this rknnd goes on: %s", why);
    manager_tell(&u->notify->manager, "STATUS=No upgrade, this rknnd goes on: %s", why);
    u->state = UPGRADE_NONE;
    stop_talking(u);
    child_kill(&u->child);
    counts_forget(&u->counts);
    if (paused && !u->stopped)
        listeners_resume(u->listeners);
}

static void on_exited(struct child *c, int code, int number)
{
    struct upgrade *u = container_of(c, struct upgrade, child);
    char why[128];
    snprintf(why, sizeof why, "the new one ended (exit code %d, signal %d)", code, number);
    if (u->state == UPGRADE_STARTING || u->state == UPGRADE_GIVING)
        undo(u, why);
    child_close(c, on_child_closed);
}

static void on_patience(uv_timer_t *timer)
{
    undo(container_of(timer, struct upgrade, patience), "the new one does not begin to serve");
}

static void on_silence(uv_timer_t *timer)
{
    undo(container_of(timer, struct upgrade, patience), "the new one does not speak any more");
}

// ---- talk ---------------------------------------------------------------------------------------

static int tell(struct upgrade *u, enum handover_kind kind, uint64_t session, struct error *e)
{
    return handover_send(u->fd, &(struct handover_packet){.kind = kind, .session = session}, -1, e);
}

// What cannot be told now is told the next time.
static void tell_counts(struct upgrade *u)
{
    struct error e = {0};
    cleanup(fd_close_p) int fd = -1;
    if (!u->counts_wanted || u->fd < 0)
        return;
    int r = counts_tell(&u->counts, &fd, &e);
    if (r == 0 && fd >= 0)
        r = handover_send(u->fd, &(struct handover_packet){.kind = HANDOVER_COUNTS}, fd, &e);
    if (r == 0)
        counts_told(&u->counts);
    else
        log_debug("counters are told later: %s", e.text);
}

static void on_counts(uv_timer_t *timer)
{
    tell_counts(container_of(timer, struct upgrade, patience));
}

// Each connection that is here may still make a session.
static void give(struct upgrade *u)
{
    struct error e;
    u->state = UPGRADE_GIVING;
    listeners_pause(u->listeners);
    tell_counts(u);
    if (tell(u, HANDOVER_YOURS, u->sessions->last_id + u->connections->n + 1, &e) < 0)
        undo(u, e.text);
}

static void retire(struct upgrade *u)
{
    struct error e;
    u->state = UPGRADE_DONE;
    uv_timer_start(&u->patience, on_counts, COUNTS_MS, COUNTS_MS);
    listeners_give_up(u->listeners);
    http_give_up(u->http);
    manager_tell(&u->notify->manager, "MAINPID=%d", (int)u->child.pid);
    notify_leave(u->notify);
    if (tell(u, HANDOVER_MAIN, 0, &e) < 0)
        log_warn("%s", e.text);
    u->retire(u, u->child.pid);
}

static void take_join(struct upgrade *u, const struct handover_packet *p, int fd)
{
    struct error e;
    struct handover_packet back = *p;
    back.kind = HANDOVER_BACK;
    if (session_find(u->sessions, p->session, p->secret) && !u->stopped) {
        u->take(u, fd);
        return;
    }
    if (!succession_pass(u->before, fd, p) && handover_send(u->fd, &back, fd, &e) < 0)
        log_warn("a connection is lost: %s", e.text);
    fd_close(fd);
}

static void take_packet(struct upgrade *u, const struct handover_packet *p, int fd)
{
    if (p->kind == HANDOVER_JOIN && fd >= 0 && u->state == UPGRADE_DONE) {
        take_join(u, p, fd);
        return;
    }
    fd_close(fd);
    if (p->kind == HANDOVER_READY && u->state == UPGRADE_STARTING) {
        u->counts_wanted = p->session > 0;
        u->unread_wanted = p->session > 1;
        give(u);
    } else if (p->kind == HANDOVER_SERVING && u->state == UPGRADE_GIVING)
        retire(u);
    else if (u->state == UPGRADE_STARTING || u->state == UPGRADE_GIVING)
        undo(u, "the new one says what is not its turn to say");
}

static void read_packets(struct upgrade *u)
{
    struct handover_packet p;
    struct error e;
    int fd, r = 0;
    while (u->fd >= 0 && (r = handover_receive(u->fd, &p, &fd, &e)) == 0)
        take_packet(u, &p, fd);
    if (r >= 0 || u->fd < 0)
        return;
    if (u->state == UPGRADE_DONE)
        stop_talking(u);
    else if (r != STATUS_DEVICE_UNAVAILABLE)
        undo(u, e.text);
    else {
        uv_poll_stop(&u->poll); // its exit code is told soon
        uv_timer_start(&u->patience, on_silence, END_MS, 0);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    read_packets(container_of(poll, struct upgrade, poll));
}

// ---- the beginning ------------------------------------------------------------------------------

static int set_texts(struct handover_packet *p, const char *name, const char *address,
                     const char *path, struct error *e)
{
    int r = handover_set_text(p->name, name, "a socket's name", e);
    if (r == 0)
        r = handover_set_text(p->address, address ? address : "", "an address", e);
    return r == 0 ? handover_set_text(p->path, path ? path : "", "a path", e) : r;
}

static int offer_listener(void *owner, const struct listener_view *v, struct error *e)
{
    const struct upgrade *u = owner;
    struct handover_packet p = {.kind = HANDOVER_SOCKET, .tls = v->tls};
    int r = set_texts(&p, v->name, v->address, v->unlink_path, e);
    return r == 0 ? handover_send(u->fd, &p, v->fd, e) : r;
}

static int offer_sockets(struct upgrade *u, struct error *e)
{
    int r = listeners_view(u->listeners, offer_listener, u, e);
    for (unsigned i = 0; r == 0 && i < u->http->n_sockets; i++) {
        const struct http_socket *s = &u->http->sockets[i];
        struct handover_packet p = {.kind = HANDOVER_HTTP};
        bool is_there = s->unlink_path && unix_file_is_at(&s->file, s->unlink_path);
        r = set_texts(&p, "HTTP", u->options->http, is_there ? s->unlink_path : NULL, e);
        if (r == 0)
            r = handover_send(u->fd, &p, s->fd, e);
    }
    return r == 0 ? tell(u, HANDOVER_COMPLETE, 0, e) : r;
}

static int check(const struct upgrade *u, struct error *e)
{
    if (u->options->adopt_fd >= 0)
        return error_set(e, STATUS_FAIL, "a daemon with --adopt is its program's alone");
    if (!list_empty(&u->listeners->carriers))
        return error_set(e, STATUS_FAIL,
                         "a USB cable cannot be handed over: restart this one instead");
    if (!u->program[0])
        return error_set(e, STATUS_FAIL, "it is not known which program this is");
    return 0;
}

static int start_child(struct upgrade *u, int theirs, struct error *e)
{
    char *words[MAX_WORDS], manager[128];
    int r = make_words(u->options, words, e);
    if (r < 0)
        return r;
    char **environment = make_environment(manager, u->notify);
    if (!environment)
        return error_no_memory(e, "an environment", sizeof *environment);
    child_init(&u->child, u->loop);
    u->has_child = true;
    r = child_start(
        &u->child,
        &(struct child_words){u->program, words, environment, theirs, STDERR_FILENO, on_exited}, e);
    free(environment);
    if (r == 0)
        return 0;
    child_close(&u->child, on_child_closed);
    return error_prefix(e, "%s", u->program);
}

static int start(struct upgrade *u, struct error *e)
{
    int ends[2], r = check(u, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "a socket pair");
    u->fd = ends[0];
    cleanup(fd_close_p) int theirs = ends[1];
    if (uv_poll_init(u->loop, &u->poll, u->fd) < 0)
        return error_set(e, STATUS_FAIL, "a socket cannot be watched");
    u->watched = true;
    r = watch_start(&u->poll, UV_READABLE, on_readable, e);
    if (r == 0)
        r = start_child(u, theirs, e);
    if (r == 0) {
        u->state = UPGRADE_STARTING;
        r = offer_sockets(u, e);
    }
    return r;
}

void upgrade_begin(struct upgrade *u)
{
    struct error e;
    if (u->state != UPGRADE_NONE || u->has_child) {
        log_warn(u->state == UPGRADE_DONE
                     ? "this rknnd has handed over already: upgrade the one that took over"
                     : "an upgrade is under way already");
        return;
    }
    manager_tell(&u->notify->manager,
                 "STATUS=An upgrade begins"); // in place of an earlier one's end
    if (start(u, &e) < 0) {
        undo(u, e.text);
        return;
    }
    log_info("%s starts, to take over", u->program);
    uv_timer_start(&u->patience, on_patience, u->options->load_timeout_ms + PATIENCE_MS, 0);
}

// ---- life ---------------------------------------------------------------------------------------

void upgrade_init(struct upgrade *u, uv_loop_t *loop)
{
    u->loop = loop;
    u->fd = -1;
    uv_timer_init(loop, &u->patience);
    ssize_t n = readlink("/proc/self/exe", u->program, sizeof u->program - 1);
    u->program[n > 0 ? n : 0] = 0;
}

bool upgrade_pass_back(struct upgrade *u, int fd)
{
    struct error e;
    struct handover_packet p = {.kind = HANDOVER_BACK};
    return u->state == UPGRADE_DONE && u->fd >= 0 && handover_send(u->fd, &p, fd, &e) == 0;
}

bool upgrade_tell_unread(void *upgrade, int socket, uint64_t n)
{
    const struct upgrade *u = upgrade;
    struct error e;
    return u->state == UPGRADE_DONE && u->unread_wanted && u->fd >= 0 &&
           handover_send(u->fd, &(struct handover_packet){.kind = HANDOVER_UNREAD, .session = n},
                         socket, &e) == 0;
}

// What the new one has sent already goes back to it; what it sends from now on it keeps.
void upgrade_close(struct upgrade *u)
{
    if (u->stopped)
        return;
    u->stopped = true;
    if (u->state == UPGRADE_DONE && u->fd >= 0) {
        tell_counts(u);
        shutdown(u->fd, SHUT_RD);
        read_packets(u);
    } else if (u->state == UPGRADE_STARTING || u->state == UPGRADE_GIVING) {
        undo(u, "this one ends");
    }
    stop_talking(u);
    counts_forget(&u->counts);
    uv_close((uv_handle_t *)&u->patience, NULL);
    if (u->has_child && !uv_is_closing((uv_handle_t *)&u->child.watch))
        child_close(&u->child, on_child_closed);
}
