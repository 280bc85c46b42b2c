// Until begin() this process only looks on: the sockets are still accepted from by the daemon
// before it, and removing their files or answering a client would take from that daemon what it
// needs when this one fails. So nothing of the old one's is touched before it has said YOURS and
// has been told SERVING.
//
// Afterwards a connection that resumes a session is recognised by the session's number: numbers
// below first_session are the old daemon's. To know it the first message has to be looked at
// without being taken out of the socket (doorstep.h).
#include "server/upgrade/succession.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/config/options.h"
#include "server/listen/listener.h"
#include "server/metrics/http_process.h"
#include "server/net/watch.h"

#define SOCKETS_MS 10000 // for what the other one sends at once

// ---- sockets ------------------------------------------------------------------------------------

static int not_its_turn(const struct handover_packet *p, struct error *e)
{
    return error_set(e, STATUS_FAIL, "the other rknnd says what is not its turn to say (kind %u)",
                     p->kind);
}

static bool listens(int socket)
{
    int yes = 0;
    socklen_t size = sizeof yes;
    return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes;
}

// A number by mistake, or something else at it than what upgrade.c makes.
static int check_socket(int fd, struct error *e)
{
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "--takeover %d: there is no rknnd at it; SIGUSR2 makes one hand over", fd);
}

static int take_http(struct succession *s, const struct handover_packet *p, int socket,
                     const struct options *o, struct http *h, struct error *e)
{
    const char *path = p->path[0] ? p->path : NULL;
    if (o->http && strcmp(o->http, p->address) == 0)
        return http_take_over(h, socket, p->address, path, e);
    fd_close(socket);
    memcpy(s->gone, p->path, sizeof s->gone);
    return 0;
}

static int take_socket(const struct handover_packet *p, int socket, struct listeners *l,
                       struct error *e)
{
    const struct listener_view view = {.fd = socket,
                                       .tls = p->tls,
                                       .name = p->name,
                                       .unlink_path = p->path[0] ? p->path : NULL,
                                       .address = p->address[0] ? p->address : NULL};
    return listener_take_over(l, &view, e);
}

static int take_any(struct succession *s, const struct handover_packet *p, int socket,
                    const struct options *o, struct listeners *l, struct http *h, struct error *e)
{
    bool comes = p->kind == HANDOVER_SOCKET || p->kind == HANDOVER_HTTP;
    if (!comes && p->kind != HANDOVER_COMPLETE) {
        fd_close(socket);
        return not_its_turn(p, e);
    }
    if (comes != (socket >= 0)) {
        fd_close(socket);
        return error_set(e, STATUS_FAIL, "the other rknnd sent a socket too many or too few");
    }
    if (!comes)
        return 0;
    if (!listens(socket)) {
        fd_close(socket);
        return error_set(e, STATUS_FAIL, "the other rknnd sent what does not listen as %s",
                         p->name);
    }
    return p->kind == HANDOVER_HTTP ? take_http(s, p, socket, o, h, e)
                                    : take_socket(p, socket, l, e);
}

// Waits: the loop does not run yet.
static int next_packet(int fd, struct handover_packet *p, int *ret_fd, struct error *e)
{
    int r;
    while ((r = handover_receive(fd, p, ret_fd, e)) == HANDOVER_NOTHING) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (poll(&one, 1, SOCKETS_MS) == 0)
            return error_set(e, STATUS_FAIL, "the other rknnd does not hand over its sockets");
    }
    return r;
}

int succession_receive(struct succession *s, int fd, const struct options *o, struct listeners *l,
                       struct http *h, struct error *e)
{
    struct handover_packet p;
    int passed, r = check_socket(fd, e);
    if (r < 0)
        return r;
    s->fd = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fd_unblock(fd);
    do {
        r = next_packet(fd, &p, &passed, e);
        if (r == STATUS_DEVICE_UNAVAILABLE) {
            log_warn("the rknnd before this one ended while it handed over");
            s->fd = fd_close(s->fd);
            return 0;
        }
        if (r == 0)
            r = take_any(s, &p, passed, o, l, h, e);
    } while (r == 0 && p.kind != HANDOVER_COMPLETE);
    return r;
}

// ---- talk ---------------------------------------------------------------------------------------

static void begin(struct succession *s)
{
    if (!s->waiting)
        return;
    s->waiting = false;
    if (s->gone[0])
        unlink(s->gone);
    s->begin(s);
}

static void stop_watching(struct succession *s)
{
    if (s->watched)
        uv_close((uv_handle_t *)&s->poll, NULL);
    s->watched = false;
    s->fd = fd_close(s->fd);
}

static void on_end(struct succession *s)
{
    stop_watching(s);
    begin(s);
    s->ended(s);
}

// One that has ended need not know.
static int tell(struct succession *s, enum handover_kind kind, struct error *e)
{
    const struct handover_packet p = {.kind = kind, .session = kind == HANDOVER_READY ? 2 : 0};
    int r = handover_send(s->fd, &p, -1, e);
    return r == STATUS_DEVICE_UNAVAILABLE ? 0 : r;
}

// This one is not to serve.
static void fail(struct succession *s, const struct error *e)
{
    s->waiting = false;
    stop_watching(s);
    s->failed(s, e);
}

static int take_packet(struct succession *s, const struct handover_packet *p, int fd,
                       struct error *e)
{
    if (p->kind == HANDOVER_BACK && fd >= 0 && !s->waiting) {
        s->returned(s, fd);
        return 0;
    }
    if (p->kind == HANDOVER_COUNTS && fd >= 0) {
        s->counted(s, fd);
        return 0;
    }
    if (p->kind == HANDOVER_UNREAD && fd >= 0 && !s->waiting) {
        s->unread(s, fd, p->session);
        return 0;
    }
    fd_close(fd);
    if (p->kind == HANDOVER_YOURS && fd < 0 && s->waiting) {
        s->first_session = p->session;
        int r = tell(s, HANDOVER_SERVING, e); // else the other one goes on, with all sockets
        if (r == 0)
            begin(s);
        return r;
    }
    if (p->kind != HANDOVER_MAIN || fd >= 0 || s->waiting)
        return not_its_turn(p, e);
    s->known(s);
    return 0;
}

// Before this one serves the sockets are the other's, whatever it says; later nothing depends on
// what it says, but the sessions that it has.
static void refuse(struct succession *s, const struct error *e)
{
    if (s->waiting) {
        fail(s, e);
        return;
    }
    log_warn("%s", e->text);
    on_end(s);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct succession *s = container_of(poll, struct succession, poll);
    struct handover_packet p;
    struct error e;
    int fd, r = 0;
    (void)status, (void)events;
    while (s->fd >= 0 && r == 0 && (r = handover_receive(s->fd, &p, &fd, &e)) == 0)
        r = take_packet(s, &p, fd, &e);
    if (r == STATUS_DEVICE_UNAVAILABLE)
        on_end(s);
    else if (r < 0)
        refuse(s, &e);
}

static int watch(struct succession *s, struct error *e)
{
    int r = uv_poll_init(s->loop, &s->poll, s->fd);
    if (r < 0)
        return error_set(e, STATUS_FAIL, "the other rknnd cannot be watched: %s", uv_strerror(r));
    s->watched = true;
    r = watch_start(&s->poll, UV_READABLE, on_readable, e);
    return r == 0 ? tell(s, HANDOVER_READY, e) : error_prefix(e, "the other rknnd");
}

// The other would end one that serves and that it does not hear of.
void succession_ready(struct succession *s)
{
    struct error e;
    s->waiting = true;
    if (s->fd < 0)
        on_end(s);
    else if (watch(s, &e) < 0)
        fail(s, &e);
}

// ---- connections --------------------------------------------------------------------------------

bool succession_pass(struct succession *s, int fd, const struct handover_packet *join)
{
    struct error e;
    if (s->fd < 0 || join->session >= s->first_session)
        return false;
    return handover_send(s->fd, join, fd, &e) == 0;
}

static void decide(struct doorstep *d, int fd, const struct origin *origin,
                   const rknnd_Hello *hello)
{
    struct succession *s = container_of(d, struct succession, doorstep);
    struct handover_packet join = {.kind = HANDOVER_JOIN};
    if (hello && hello->session && hello->session_secret.size == HELLO_SECRET_SIZE) {
        join.session = hello->session;
        memcpy(join.secret, hello->session_secret.bytes, sizeof join.secret);
        if (succession_pass(s, fd, &join)) {
            fd_close(fd);
            return;
        }
    }
    s->take(s, fd, origin);
}

// What comes by TLS cannot change hands: its keys are in the process that began it.
void succession_meet(struct succession *s, int fd, const struct origin *origin)
{
    if (s->fd >= 0 && !origin->tls)
        doorstep_wait(&s->doorstep, fd, origin);
    else
        s->take(s, fd, origin);
}

void succession_init(struct succession *s, uv_loop_t *loop)
{
    *s = (struct succession){.loop = loop, .fd = -1};
    doorstep_init(&s->doorstep, loop);
    s->doorstep.decide = decide;
}

void succession_close(struct succession *s)
{
    s->waiting = false;
    doorstep_close(&s->doorstep);
    stop_watching(s);
}
