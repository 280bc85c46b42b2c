// Sockets as transports: libuv tells when the socket is ready, and fd_send() and fd_receive() do
// the rest.
#include "server/net/transport_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/net/discard.h"
#include "base/net/tcp.h"
#include "server/net/rounds.h"
#include "server/net/watch.h"

#define AGAIN_MS 50

struct transport_socket {
    struct transport transport;
    int fd;
    uv_poll_t poll;
    uv_timer_t again; // when the kernel had no room to watch it
    unsigned n_open;  // of these two
    int watched;
    int events; // what poll waits for
    bool woken, closing;
    bool parked; // not watched until its turn comes
    struct rounds *rounds;
    struct rounds_line *line; // in which it waits for its turns; NULL: it has them at once
    struct rounds_place place;
    int status, happened; // since its last turn
    bool takes_fds;       // a Unix socket: whoever is at its other end can pass descriptors
    uint32_t timeout_ms;  // of the other machine; 0: it is this one
    struct tcp_answers answers;
};

static struct transport_socket *socket_of(struct transport *w)
{
    return container_of(w, struct transport_socket, transport);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void on_again(uv_timer_t *timer);

static void transport_socket_start(struct transport_socket *s)
{
    struct error e;
    if (watch_start(&s->poll, s->events, on_poll, &e) == 0)
        return;
    log_warn("a connection waits for %d ms: %s", AGAIN_MS, e.text);
    uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
}

// Watches what is wanted. A wake is done by watching for UV_WRITABLE: a socket that can be written
// to wakes the loop at once, and one that cannot has a reader at its other end, or an error, that
// will.
static void transport_socket_update(struct transport_socket *s)
{
    int events = s->watched | (s->woken ? UV_WRITABLE : 0);
    if (events == s->events || s->closing || s->parked)
        return;
    s->events = events;
    if (events)
        transport_socket_start(s);
    else
        uv_poll_stop(&s->poll);
}

static void on_again(uv_timer_t *timer)
{
    struct transport_socket *s = container_of(timer, struct transport_socket, again);
    if (s->events && !s->closing && !s->parked)
        transport_socket_start(s);
}

// What is ready and waits for its turn would be reported all the time.
static void transport_socket_park(struct transport_socket *s)
{
    s->parked = true;
    s->events = 0;
    uv_poll_stop(&s->poll);
}

// ready() may close the transport; the struct stays until on_closed().
static void on_turn(struct rounds_place *place)
{
    struct transport_socket *s = container_of(place, struct transport_socket, place);
    int status = s->status, events = s->happened;
    s->status = s->happened = 0;
    s->woken = s->parked = false;
    s->transport.ready(&s->transport, status, events);
    transport_socket_update(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct transport_socket *s = container_of(poll, struct transport_socket, poll);
    s->happened |= events;
    if (status < 0)
        s->status = status;
    if (s->line)
        rounds_wait(s->rounds, s->line, &s->place);
    else
        on_turn(&s->place);
    if (rounds_waits(&s->place) && rounds_are_crowded(s->rounds))
        transport_socket_park(s);
}

static ssize_t send_some(struct transport *w, const struct iovec *iov, int n_iov, const int *fds,
                         int n_fds)
{
    return fd_send(socket_of(w)->fd, iov, n_iov, fds, n_fds);
}

// All descriptors that come are taken from the kernel, which would close them itself, and may have
// to wait for that.
static ssize_t receive_some(struct transport *w, void *buffer, size_t size, int *fds, int *n_fds,
                            int max_fds)
{
    struct transport_socket *s = socket_of(w);
    int passed[FD_MAX_IN_MESSAGE], n_passed = 0;
    ssize_t n =
        fd_receive(s->fd, buffer, size, passed, &n_passed, s->takes_fds ? FD_MAX_IN_MESSAGE : 0);
    int kept = 0;
    w->n_passed += (unsigned)n_passed;
    while (kept < n_passed && *n_fds < max_fds)
        fds[(*n_fds)++] = passed[kept++];
    return discard_fds(passed + kept, n_passed - kept) ? n : -EMFILE;
}

static void transport_socket_watch(struct transport *w, int events)
{
    socket_of(w)->watched = events;
    transport_socket_update(socket_of(w));
}

static void transport_socket_wake(struct transport *w)
{
    socket_of(w)->woken = true;
    transport_socket_update(socket_of(w));
}

// One that waits goes to the end of the other line.
static void transport_socket_line_up(struct transport *w, struct rounds *rounds,
                                     struct rounds_line *line)
{
    struct transport_socket *s = socket_of(w);
    bool waits = rounds_waits(&s->place);
    rounds_leave(&s->place);
    s->rounds = rounds;
    s->line = line;
    if (waits && line)
        rounds_wait(rounds, line, &s->place);
}

// Only for other machines; a local peer's end always shows.
static bool is_gone(struct transport *w, uint64_t now_ms)
{
    struct transport_socket *s = socket_of(w);
    return s->timeout_ms > 0 && tcp_is_gone(&s->answers, s->fd, now_ms, s->timeout_ms);
}

// TCP keep-alive makes the other machine answer; is_gone() looks at when it last did.
void transport_socket_keep_asking(struct transport *w, uint32_t idle_ms, uint32_t timeout_ms)
{
    struct transport_socket *s = socket_of(w);
    s->timeout_ms = timeout_ms;
    tcp_keep_asking(s->fd, idle_ms, timeout_ms);
}

static int passes_fds(struct transport *w)
{
    return socket_of(w)->takes_fds ? socket_of(w)->fd : -1;
}

static void finish_sending(struct transport *w)
{
    shutdown(socket_of(w)->fd, SHUT_WR);
}

static void on_closed(uv_handle_t *handle)
{
    struct transport_socket *s = handle->data;
    if (--s->n_open > 0)
        return;
    if (s->transport.closed)
        s->transport.closed(&s->transport);
    free(s);
}

// The kernel closes a socket of the network in tens of microseconds, so that is done here, where it
// counts as work of a turn: libuv does not watch it any more, and would call on_closed() of all
// that have closed in this turn at its end. What lies unread in one is not left to the kernel.
static void close_socket(struct transport *w)
{
    struct transport_socket *s = socket_of(w);
    s->closing = true;
    rounds_leave(&s->place);
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->again, on_closed);
    discard_socket(s->fd);
    s->fd = -1;
}

static const struct transport_ops ops = {
    .send = send_some,
    .receive = receive_some,
    .watch = transport_socket_watch,
    .wake = transport_socket_wake,
    .line_up = transport_socket_line_up,
    .is_gone = is_gone,
    .passes = passes_fds,
    .finish = finish_sending,
    .close = close_socket,
};

// uv_poll_init() makes the socket non-blocking. On failure the fd stays the caller's.
int transport_socket_new(uv_loop_t *loop, int fd, struct transport **ret, struct error *e)
{
    struct transport_socket *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "a connection", sizeof *s);
    int r = uv_poll_init(loop, &s->poll, fd);
    if (r < 0) {
        free(s);
        return error_set(e, STATUS_FAIL, "cannot watch a connection: %s", uv_strerror(r));
    }
    uv_timer_init(loop, &s->again);
    s->poll.data = s->again.data = s;
    s->n_open = 2;
    rounds_place_init(&s->place, on_turn);
    s->transport = (struct transport){.ops = &ops, .loop = loop};
    s->fd = fd;
    s->takes_fds = fd_is_unix(fd);
    if (s->takes_fds)
        fd_take_urgent(fd);
    *ret = &s->transport;
    return 0;
}
