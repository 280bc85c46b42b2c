// Proxies at the PC's end: one per program, between its stream socket and a channel of the USB
// link.
//
//     program ⇄ socket ── proxy_pull() ──► channel ⇄ board
//                      ◄── proxy_push(), queue ──
//
// Everything runs on the relay's loop. Back-pressure: towards the board the socket is read only
// when the channel has credit; towards the program, bytes that the socket does not take wait in
// `queue` (at most MUX_WINDOW) and are reported as consumed only when the socket took them. A proxy
// owns its socket and frees itself in the close callback of its poll handle.
#include "server/usb/proxy.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/stream.h"
#include "server/usb/ring.h"

struct proxy {
    struct list link;
    struct proxies *all;
    struct mux_channel channel;
    struct stream stream;
    uv_poll_t poll;
    int events;  // it waits for
    bool hungry; // waits for the socket to have something
    bool closing;
    struct ring queue; // what came and the socket has not taken
};

static void on_poll(uv_poll_t *poll, int status, int events);

// Polls for what is needed now: input while the channel has drained the socket, output while
// `queue` holds something.
static void proxy_watch(struct proxy *p)
{
    if (p->closing)
        return;
    short wanted = stream_events(&p->stream, p->hungry, p->queue.n > 0);
    int events = (wanted & POLLIN ? UV_READABLE : 0) | (wanted & POLLOUT ? UV_WRITABLE : 0);
    if (events == p->events)
        return;
    p->events = events;
    if (events)
        uv_poll_start(&p->poll, events, on_poll);
    else
        uv_poll_stop(&p->poll);
}

// The poll handle is closed: nothing can call back any more, so the proxy may be freed.
static void on_closed(uv_handle_t *handle)
{
    struct proxy *p = container_of((uv_poll_t *)handle, struct proxy, poll);
    struct proxies *all = p->all;
    stream_close(&p->stream);
    ring_done(&p->queue);
    free(p);
    if (--all->n == 0 && all->idle)
        all->idle(all);
}

// Ends both sides. Safe to repeat.
static void proxy_end(struct proxy *p)
{
    if (p->closing)
        return;
    p->closing = true;
    mux_close(&p->channel);
    list_remove(&p->link);
    uv_close((uv_handle_t *)&p->poll, on_closed);
}

// ---- from the link to the socket ----------------------------------------------------------------

// How many bytes the socket took; negative: it is broken.
static ssize_t proxy_give(struct proxy *p, struct bytes data)
{
    struct iovec iov = {(void *)data.data, data.size};
    ssize_t n = stream_send(&p->stream, &iov, 1, NULL, 0);
    return n == -EAGAIN || n == -EWOULDBLOCK ? 0 : n;
}

// Bytes from the board. Goes to the socket at once when nothing is queued before it; what the
// socket does not take is queued.
void proxy_push(struct mux_channel *ch, struct bytes data)
{
    struct proxy *p = container_of(ch, struct proxy, channel);
    ssize_t n = p->queue.n > 0 ? 0 : proxy_give(p, data);
    if (n > 0)
        mux_consumed(ch, (size_t)n);
    if (n >= 0 && (size_t)n == data.size)
        return;
    if (n < 0 || !ring_put(&p->queue, (struct bytes){data.data + n, data.size - (size_t)n}))
        proxy_end(p);
    else
        proxy_watch(p);
}

// The board closed the channel. What came before that is still written to the socket, then the
// proxy ends (proxy_drain()).
void proxy_closed(struct mux_channel *ch)
{
    struct proxy *p = container_of(ch, struct proxy, channel);
    p->hungry = false;
    if (p->queue.n == 0)
        proxy_end(p);
    else
        proxy_watch(p);
}

// Writes queued bytes until the socket is full, and gives the board credit for them.
static void proxy_drain(struct proxy *p)
{
    while (p->queue.n > 0) {
        struct bytes part = ring_peek(&p->queue);
        ssize_t n = proxy_give(p, part);
        if (n < 0) {
            proxy_end(p);
            return;
        }
        ring_drop(&p->queue, (size_t)n);
        mux_consumed(&p->channel, (size_t)n);
        if ((size_t)n < part.size)
            return;
    }
    if (!p->channel.mux)
        proxy_end(p);
}

// ---- from the socket to the link ----------------------------------------------------------------

// Reads for the channel straight into a block of the link. -1 ends the channel: end of file, or an
// error of the socket. -EPROTO is a program that wrote nonsense into the shared ring; only its own
// connection ends.
int proxy_pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    struct proxy *p = container_of(ch, struct proxy, channel);
    ssize_t n = stream_receive(&p->stream, into, size, NULL, NULL, 0);
    bool none = n == -EAGAIN || n == -EWOULDBLOCK;
    if (n == -EPROTO)
        log_warn("a program's connection ends: the memory that it shares is not as it should be");
    if (n == 0 || (n < 0 && !none))
        return -1;
    p->hungry = none || (size_t)n < size;
    proxy_watch(p); // receiving may have taken a wake-up for sending
    return none ? 0 : (int)n;
}

// The shared-memory form of a stream gives no readable event for data, so it is asked each time.
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct proxy *p = container_of(poll, struct proxy, poll);
    if (status < 0) {
        proxy_end(p);
        return;
    }
    stream_wake(&p->stream);
    if (p->hungry && (stream_is_shared(&p->stream) || (events & UV_READABLE))) {
        p->hungry = false;
        mux_ready(&p->channel);
    }
    proxy_drain(p);
    proxy_watch(p);
}

// ---- life ---------------------------------------------------------------------------------------

void proxies_init(struct proxies *p, uv_loop_t *loop)
{
    *p = (struct proxies){.loop = loop};
    list_init(&p->all);
}

// Takes `fd` over, also on failure. Returns NULL with *e set.
static struct proxy *proxy_new(struct proxies *all, int fd, struct error *e)
{
    cleanup(fd_close_p) int socket = fd;
    struct proxy *p = calloc(1, sizeof *p);
    if (!p) {
        error_no_memory(e, "a connection over the cable", sizeof *p);
        return NULL;
    }
    int r = uv_poll_init(all->loop, &p->poll, socket);
    if (r < 0) {
        error_set(e, STATUS_FAIL, "a connection over the cable: %s", uv_strerror(r));
        free(p);
        return NULL;
    }
    fd_widen(socket);
    ring_init(&p->queue, MUX_WINDOW);
    p->all = all;
    stream_init(&p->stream, steal_fd(&socket), true);
    p->hungry = true;
    list_append(&all->all, &p->link);
    all->n++;
    proxy_watch(p);
    return p;
}

int proxy_open(struct proxies *all, struct mux *m, int fd, struct error *e)
{
    struct proxy *p = proxy_new(all, fd, e);
    if (!p)
        return e->code;
    int r = mux_open(m, &p->channel, e);
    if (r < 0)
        proxy_end(p);
    return r;
}

void proxies_close(struct proxies *all)
{
    struct proxy *p, *after;
    list_for_each_safe (p, after, &all->all, link)
        proxy_end(p);
}
