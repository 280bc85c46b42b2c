// Channels of a USB link as transports, at the board's end.
//
// The link works in blocks: it pushes a block that has arrived for the channel, and pulls a block
// when it may send. Both become ready() calls, from which the channel reads or writes:
//
//   mux --push(block)--> ready(UV_READABLE) --> receive(): copies from the block
//                          what is not read goes to the ring `waiting`, and is read first later
//   mux --pull(room)---> ready(UV_WRITABLE) --> send(): copies into the room, or lends memory
//
// So bytes are mostly copied once between the USB buffers and their destination. Without a block,
// ready() comes from an idle handle of the loop. All of it is on the loop's thread.
#include "server/net/transport_mux.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "server/usb/ring.h"

#define LEND_MIN 4096u // bytes worth more than a copy

struct transport_mux {
    struct transport transport;
    struct mux_channel channel;
    uv_idle_t turn; // in which ready() comes if no block brings it about
    int watched;
    bool woken, broken, closing;
    struct bytes block;  // what is left of the one that is being pushed
    struct ring waiting; // what was left of others; comes before it
    uint8_t *into;       // the block that is being pulled
    size_t room;         // in it
};

static struct transport_mux *of_transport(struct transport *w)
{
    return container_of(w, struct transport_mux, transport);
}

static struct transport_mux *of_channel(struct mux_channel *ch)
{
    return container_of(ch, struct transport_mux, channel);
}

// ---- when ready() comes -------------------------------------------------------------------------

// What can be told without a block: bytes that wait, or the end of the channel.
static int events_now(const struct transport_mux *w)
{
    bool gone = w->broken || !w->channel.mux;
    int events = gone ? UV_READABLE | UV_DISCONNECT : 0;
    if (w->waiting.n > 0)
        events |= UV_READABLE;
    return events & w->watched;
}

static void on_turn(uv_idle_t *turn);

// Runs the idle handle only while there is something to tell, as it keeps the loop from sleeping.
static void transport_mux_update(struct transport_mux *w)
{
    if (w->closing)
        return;
    if (w->woken || events_now(w))
        uv_idle_start(&w->turn, on_turn);
    else
        uv_idle_stop(&w->turn);
}

static void on_turn(uv_idle_t *turn)
{
    struct transport_mux *w = container_of(turn, struct transport_mux, turn);
    w->woken = false;
    w->transport.ready(&w->transport, 0, events_now(w));
    transport_mux_update(w);
}

static void transport_mux_watch(struct transport *transport, int events)
{
    struct transport_mux *w = of_transport(transport);
    w->watched = events;
    if (events & UV_WRITABLE)
        mux_ready(&w->channel);
    transport_mux_update(w);
}

static void transport_mux_wake(struct transport *transport)
{
    of_transport(transport)->woken = true;
    transport_mux_update(of_transport(transport));
}

// ---- receiving ----------------------------------------------------------------------------------

// From the ring: at most two parts, because it wraps.
static size_t read_waiting(struct transport_mux *w, uint8_t *into, size_t size)
{
    size_t done = 0;
    while (done < size && w->waiting.n > 0) {
        struct bytes part = ring_peek(&w->waiting);
        part.size = size_min(part.size, size - done);
        memcpy(into + done, part.data, part.size);
        ring_drop(&w->waiting, part.size);
        done += part.size;
    }
    return done;
}

// From the block that is being pushed, straight to the reader's destination.
static size_t read_block(struct transport_mux *w, uint8_t *into, size_t size)
{
    size_t n = size_min(size, w->block.size);
    if (n == 0)
        return 0;
    memcpy(into, w->block.data, n);
    w->block = (struct bytes){w->block.data + n, w->block.size - n};
    return n;
}

// Older bytes first. mux_consumed() lets the peer send as many again.
static ssize_t transport_mux_receive(struct transport *transport, void *buffer, size_t size,
                                     int *fds, int *n_fds, int max_fds)
{
    struct transport_mux *w = of_transport(transport);
    (void)fds;
    (void)n_fds;
    (void)max_fds;
    size_t n = read_waiting(w, buffer, size);
    n += read_block(w, (uint8_t *)buffer + n, size - n);
    mux_consumed(&w->channel, n);
    if (n > 0)
        return (ssize_t)n;
    if (w->broken)
        return -ENOMEM;
    return w->channel.mux ? -EAGAIN : 0;
}

// From the link. The ring holds a whole window, so it cannot overflow; putting fails only for lack
// of memory, and then the stream has a gap and is broken.
void transport_mux_push(struct mux_channel *ch, struct bytes data)
{
    struct transport_mux *w = of_channel(ch);
    if (w->broken)
        return;
    w->block = data;
    if (w->watched & UV_READABLE)
        w->transport.ready(&w->transport, 0, UV_READABLE);
    if (w->block.size > 0 && !w->closing)
        w->broken = !ring_put(&w->waiting, w->block);
    w->block = (struct bytes){0};
    transport_mux_update(w);
}

// ---- sending ------------------------------------------------------------------------------------

// Lends memory instead of copying: a large part of a frame that fills the room and is not sent
// whole stays where it is until the next block is pulled.
static bool transport_mux_lend(struct transport_mux *w, const struct iovec *from, size_t size)
{
    bool stays = size == w->room && size < from->iov_len;
    return stays && size >= LEND_MIN && mux_lend(&w->channel, (struct bytes){from->iov_base, size});
}

// Fills the room of the block that is being pulled; at other times there is none, and it is as if
// the socket were full.
static ssize_t send_some(struct transport *transport, const struct iovec *iov, int n_iov,
                         const int *fds, int n_fds)
{
    struct transport_mux *w = of_transport(transport);
    size_t n = 0;
    (void)fds;
    (void)n_fds;
    assert(n_fds == 0);
    for (int i = 0; i < n_iov && w->room > 0; i++) {
        size_t part = size_min(iov[i].iov_len, w->room);
        if (!transport_mux_lend(w, &iov[i], part))
            memcpy(w->into, iov[i].iov_base, part);
        w->into += part;
        w->room -= part;
        n += part;
    }
    return n > 0 ? (ssize_t)n : -EAGAIN;
}

// From the link: returns how many bytes of the room were filled, 0 if there is nothing to send.
int transport_mux_pull(struct mux_channel *ch, uint8_t *into, size_t size)
{
    struct transport_mux *w = of_channel(ch);
    w->into = into;
    w->room = size;
    if (w->watched & UV_WRITABLE)
        w->transport.ready(&w->transport, 0, UV_WRITABLE);
    size_t n = size - w->room;
    w->room = 0;
    return (int)n;
}

// ---- life ---------------------------------------------------------------------------------------

void transport_mux_closed(struct mux_channel *ch)
{
    transport_mux_update(of_channel(ch));
}

static void on_closed(uv_handle_t *handle)
{
    struct transport_mux *w = container_of((uv_idle_t *)handle, struct transport_mux, turn);
    if (w->transport.closed)
        w->transport.closed(&w->transport);
    ring_done(&w->waiting);
    free(w);
}

// closed() comes from the loop, when libuv has let go of the idle handle.
static void close_channel(struct transport *transport)
{
    struct transport_mux *w = of_transport(transport);
    w->closing = true;
    w->watched = 0;
    mux_close(&w->channel);
    uv_close((uv_handle_t *)&w->turn, on_closed);
}

static const struct transport_ops ops = {
    .send = send_some,
    .receive = transport_mux_receive,
    .watch = transport_mux_watch,
    .wake = transport_mux_wake,
    .close = close_channel,
};

struct transport *transport_mux_accept(struct mux *m, uint32_t number, uv_loop_t *loop)
{
    struct transport_mux *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->transport = (struct transport){.ops = &ops, .loop = loop};
    ring_init(&w->waiting, MUX_WINDOW);
    uv_idle_init(loop, &w->turn);
    mux_accept(m, &w->channel, number);
    return &w->transport;
}
