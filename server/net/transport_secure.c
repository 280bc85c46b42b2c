// TLS sessions as transports. The owner's ready() begins when the handshake is through; until then
// this one does with the inner transport what the handshake wants.
//
//     inner.ready() ─► on_ready() ─┬─ handshake ─► in line ─► on_turn() ─► tls_handshake()
//                                  ├─ open ──────► ready(): the owner sends and receives
//                                  └─ refused ───► what comes is dropped, so that the alert
//                                                  arrives; at the end ready(broken)
//
// A handshake costs more than anything else that somebody unknown can ask for, so a turn of the
// loop does one. Who waits for its own is not watched meanwhile, and has no session before it
// comes: who connects and goes costs little.
#include "server/net/transport_secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "base/tls/tls.h"
#include "protocol/frame.h"
#include "server/net/goodbye.h"
#include "server/turns.h"

#define LOG_EVERY_MS   1000
#define DROPS_PER_TURN 4

enum tls_state { TLS_SHAKES, TLS_OPEN, TLS_REFUSED };

struct transport_tls {
    struct transport transport;
    struct transport *inner;
    struct tls_door *door;
    struct tls *tls; // NULL: its first turn has not come
    enum tls_state state;
    int watched;
    bool closing;
    struct rounds_place place; // in door->line
    char peer[64];
};

static struct transport_tls *tls_transport(struct transport *w)
{
    return container_of(w, struct transport_tls, transport);
}

// ---- bytes of the inner transport ---------------------------------------------------------------

static ssize_t inner_send(void *owner, const void *data, size_t size)
{
    struct transport *inner = owner;
    const struct iovec iov = {(void *)data, size};
    return inner->ops->send(inner, &iov, 1, NULL, 0);
}

static ssize_t inner_receive(void *owner, void *buffer, size_t size)
{
    struct transport *inner = owner;
    int none = 0;
    return inner->ops->receive(inner, buffer, size, NULL, &none, 0);
}

// ---- when ready() comes -------------------------------------------------------------------------

static int wanted_events(const struct transport_tls *w)
{
    int writes = w->tls && tls_wants_send(w->tls) ? UV_WRITABLE : 0;
    if (rounds_waits(&w->place))
        return 0;
    return w->state == TLS_OPEN ? w->watched | writes : UV_READABLE | writes;
}

// What has been read from the inner transport brings no event of it.
static void transport_tls_update(struct transport_tls *w)
{
    if (w->closing)
        return;
    w->inner->ops->watch(w->inner, wanted_events(w));
    if (w->state == TLS_OPEN && (w->watched & UV_READABLE) && tls_has_input(w->tls))
        w->inner->ops->wake(w->inner);
}

// ---- the handshake ------------------------------------------------------------------------------

// Whoever can reach the port can make such lines, so only some are written.
static void log_refused(struct transport_tls *w)
{
    struct tls_door *d = w->door;
    uint64_t now_ms = uv_now(w->transport.loop);
    const char *identity = tls_identity(w->tls);
    if (d->logged_ms && now_ms - d->logged_ms < LOG_EVERY_MS) {
        d->n_unsaid++;
        return;
    }
    log_warn("%s%s%s is refused by TLS: %s (%u more since the last such line)", w->peer,
             *identity ? ", identity " : "", identity, tls_why(w->tls), d->n_unsaid);
    d->logged_ms = now_ms;
    d->n_unsaid = 0;
}

// A client of ours that does not speak TLS is told so in its own language.
static void tell_plain_client(struct transport_tls *w)
{
    static const char magic[] = {FRAME_MAGIC & 0xff, FRAME_MAGIC >> 8 & 0xff,
                                 FRAME_MAGIC >> 16 & 0xff, FRAME_MAGIC >> 24 & 0xff};
    if (tls_began_with(w->tls, magic, sizeof magic))
        goodbye_send(w->inner, "this port speaks TLS: write tls: in its address, not tcp:");
}

// Keys that rknnctl pair has just made are for who connects now.
static void refresh_keys(struct tls_door *d)
{
    struct error e;
    int r = d->context ? tls_context_refresh(d->context, &e) : 0;
    if (r < 0)
        log_error("the keys of TLS stay as they were: %s", e.text);
    else if (r > 0)
        log_info("the keys of TLS have been read again");
}

static void transport_tls_shake(struct transport_tls *w)
{
    turns_mark(w->transport.loop, "TLS handshakes");
    refresh_keys(w->door);
    int r = tls_handshake(w->tls);
    if (r == 0)
        w->state = TLS_OPEN;
    if (r == 0 || r == -EAGAIN)
        return;
    log_refused(w);
    w->state = TLS_REFUSED;
    tell_plain_client(w);
    if (w->inner->ops->finish)
        w->inner->ops->finish(w->inner);
}

// Reads what the refused client has sent: closing with unread bytes would take the alert from it.
static bool transport_tls_drop(struct transport_tls *w)
{
    char bytes[4096];
    ssize_t n = -EAGAIN;
    for (int i = 0; i < DROPS_PER_TURN; i++)
        if ((n = inner_receive(w->inner, bytes, sizeof bytes)) <= 0)
            break;
    return n == -EAGAIN || n == -EWOULDBLOCK || n > 0;
}

// The owner may close this from its ready(); the struct stays until on_closed().
static void on_ready(struct transport *inner, int status, int events)
{
    struct transport_tls *w = inner->owner;
    if (status >= 0 && w->state == TLS_SHAKES) {
        rounds_wait(&w->door->rounds, &w->door->line, &w->place);
    } else if (status >= 0 && w->state == TLS_OPEN) {
        events &= w->watched;
        if ((w->watched & UV_READABLE) && tls_has_input(w->tls))
            events |= UV_READABLE;
        w->transport.ready(&w->transport, status, events);
    } else if (status < 0 || !transport_tls_drop(w)) {
        w->transport.ready(&w->transport, status < 0 ? status : UV_ECONNABORTED, 0);
    }
    transport_tls_update(w);
}

static bool transport_tls_begin(struct transport_tls *w)
{
    const struct tls_io io = {.send = inner_send, .receive = inner_receive, .owner = w->inner};
    struct error e;
    if (w->tls)
        return true;
    if (!w->door->context) {
        log_info("%s is not served: TLS is no longer configured", w->peer);
        return false;
    }
    int r = tls_new(w->door->context, &io, NULL, &w->tls, &e);
    if (r < 0)
        log_warn("%s is not served: %s", w->peer, e.text);
    return r == 0;
}

// Its turn to shake hands. What the refused one has sent is dropped when it is ready again.
static void on_turn(struct rounds_place *place)
{
    struct transport_tls *w = container_of(place, struct transport_tls, place);
    if (!transport_tls_begin(w)) {
        w->transport.ready(&w->transport, UV_ECONNABORTED, 0);
        return;
    }
    transport_tls_shake(w);
    if (w->state == TLS_OPEN)
        w->transport.ready(&w->transport, 0, UV_READABLE & w->watched);
    transport_tls_update(w);
}

// ---- operations ---------------------------------------------------------------------------------

static ssize_t send_some(struct transport *transport, const struct iovec *iov, int n_iov,
                         const int *fds, int n_fds)
{
    const struct transport_tls *w = tls_transport(transport);
    (void)fds;
    (void)n_fds;
    return w->state == TLS_OPEN ? tls_send(w->tls, iov, n_iov) : -EAGAIN;
}

static ssize_t receive_some(struct transport *transport, void *buffer, size_t size, int *fds,
                            int *n_fds, int max_fds)
{
    const struct transport_tls *w = tls_transport(transport);
    (void)fds;
    (void)n_fds;
    (void)max_fds;
    return w->state == TLS_OPEN ? tls_receive(w->tls, buffer, size) : -EAGAIN;
}

static void transport_tls_watch(struct transport *transport, int events)
{
    struct transport_tls *w = tls_transport(transport);
    w->watched = events;
    transport_tls_update(w);
}

static void transport_tls_wake(struct transport *transport)
{
    struct transport *inner = tls_transport(transport)->inner;
    inner->ops->wake(inner);
}

static void transport_tls_line_up(struct transport *transport, struct rounds *rounds,
                                  struct rounds_line *line)
{
    transport_line_up(tls_transport(transport)->inner, rounds, line);
}

static bool is_gone(struct transport *transport, uint64_t now_ms)
{
    return transport_is_gone(tls_transport(transport)->inner, now_ms);
}

static const char *transport_tls_identity(struct transport *transport)
{
    const struct transport_tls *w = tls_transport(transport);
    return w->state == TLS_OPEN ? tls_identity(w->tls) : "";
}

static void on_closed(struct transport *inner)
{
    struct transport_tls *w = inner->owner;
    if (w->transport.closed)
        w->transport.closed(&w->transport);
    tls_free(w->tls);
    free(w);
}

static void close_tls(struct transport *transport)
{
    struct transport_tls *w = tls_transport(transport);
    rounds_leave(&w->place);
    if (w->tls)
        tls_finish(w->tls);
    w->closing = true;
    w->inner->closed = on_closed;
    transport_close(w->inner);
}

static const struct transport_ops ops = {
    .send = send_some,
    .receive = receive_some,
    .watch = transport_tls_watch,
    .wake = transport_tls_wake,
    .line_up = transport_tls_line_up,
    .is_gone = is_gone,
    .identity = transport_tls_identity,
    .close = close_tls,
};

void tls_door_init(struct tls_door *door, uv_loop_t *loop)
{
    *door = (struct tls_door){0};
    rounds_init(&door->rounds, loop, 0);
    rounds_line_init(&door->line);
}

void tls_door_close(struct tls_door *door)
{
    rounds_line_done(&door->line);
    rounds_close(&door->rounds);
}

int transport_secure_new(struct tls_door *door, struct transport *inner, const char *peer,
                         struct transport **ret, struct error *e)
{
    struct transport_tls *w = calloc(1, sizeof *w);
    if (!w)
        return error_no_memory(e, "a connection", sizeof *w);
    w->transport = (struct transport){.ops = &ops, .loop = inner->loop};
    w->inner = inner;
    w->door = door;
    rounds_place_init(&w->place, on_turn);
    snprintf(w->peer, sizeof w->peer, "%s", peer);
    inner->owner = w;
    inner->ready = on_ready;
    *ret = &w->transport;
    transport_tls_update(w);
    return 0;
}
