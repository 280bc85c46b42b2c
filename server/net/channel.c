// Frames over a transport, on the loop.
//
// Reading and writing are done at once, when the transport is ready, until it is not any more or
// the turn's work is used up; what is left comes in the next turn of the loop, so that one busy
// peer does not keep the others waiting. What cannot be sent waits in `out`, and the owner hears of
// its end.
#include "server/net/channel.h"

#include <assert.h>
#include <errno.h>

#include "base/bytes.h"
#include "base/net/discard.h"
#include "server/turns.h"

// One busy peer does not keep the loop for longer than this many reads.
#define READS_PER_TURN 16
#define READ_PER_TURN  (1u << 20) // bytes: a peer can write as fast as they are read,
#define SENT_AT_ONCE   (4u << 20) // and read as fast as these are written: neither would ever end
#define WRITE_VECTORS  64

// What the channel waits for now. While paused it still notices a peer that goes away.
static void update_events(struct channel *c)
{
    int events = 0;
    if (!c->closing && !c->lost) {
        events = c->paused ? UV_DISCONNECT : UV_READABLE;
        if (!list_empty(&c->out.frames))
            events |= UV_WRITABLE;
    }
    if (events == c->events || c->closing)
        return;
    c->events = events;
    c->transport->ops->watch(c->transport, events);
}

// Notes that the stream is useless. The owner is told by report_lost(), from the loop, never from
// inside of its own call.
static void channel_fail(struct channel *c, const struct error *why)
{
    if (c->failed || c->lost || c->closing)
        return;
    c->failed = true;
    c->why = *why;
}

// The last thing of a turn. The owner closes the channel in on_lost(); the struct stays until the
// loop has closed the transport.
static void report_lost(struct channel *c)
{
    if (!c->failed || c->lost || c->closing)
        return;
    c->lost = true;
    frame_queue_done(&c->out);
    update_events(c);
    c->ops->on_lost(c, &c->why);
}

// Whether more may be delivered: the owner may pause or close the channel in any callback.
static bool goes_on(const struct channel *c)
{
    return !c->paused && !c->closing && !c->failed && c->work > 0;
}

// Hands over what has been read, as long as the owner wants it and its turn lasts.
static void channel_deliver(struct channel *c)
{
    struct error e;
    while (goes_on(c)) {
        int event = frame_reader_next(&c->reader, &e);
        if (event == FRAME_NEED_MORE)
            return;
        if (event < 0) {
            channel_fail(c, &e);
        } else if (event == FRAME_PAYLOAD) {
            c->ops->on_payload(c);
        } else {
            c->work--;
            c->ops->on_message(c, &c->reader.header, frame_reader_message(&c->reader));
        }
    }
}

// Reads once. True if there may be more at once.
static bool channel_receive(struct channel *c)
{
    void *space;
    struct error e;
    struct frame_reader *r = &c->reader;
    size_t size = size_min(frame_reader_space(r, &space), READ_PER_TURN - c->n_read);
    ssize_t n = c->transport->ops->receive(c->transport, space, size, r->fds, &r->n_fds,
                                           c->takes_fds ? FRAME_READER_FDS : 0);
    if (n == -EAGAIN || n == -EWOULDBLOCK)
        return false;
    if (n <= 0) {
        if (n == 0)
            error_set(&e, STATUS_DEVICE_UNAVAILABLE, "the peer closed the connection");
        else
            error_set_errno(&e, STATUS_DEVICE_UNAVAILABLE, (int)-n, "the connection broke");
        channel_fail(c, &e);
        return false;
    }
    c->last_heard_ms = uv_now(c->transport->loop);
    c->n_read += (size_t)n;
    frame_reader_fill(r, (size_t)n);
    channel_deliver(c);
    return (size_t)n == size && c->n_read < READ_PER_TURN;
}

// How many of `n` segments are within `most` bytes, of which the last may be cut.
static int cut_segments(struct iovec *iov, int n, size_t most)
{
    int i = 0;
    for (; i < n && most > 0; i++) {
        iov[i].iov_len = size_min(iov[i].iov_len, most);
        most -= iov[i].iov_len;
    }
    return i;
}

// Sends what the transport takes now.
static void channel_flush(struct channel *c)
{
    struct iovec iov[WRITE_VECTORS];
    const int *fds;
    int n_fds, n_iov;
    size_t sent = 0;
    while (!c->failed && sent < SENT_AT_ONCE &&
           (n_iov = frame_queue_peek(&c->out, iov, WRITE_VECTORS, &fds, &n_fds)) > 0) {
        n_iov = cut_segments(iov, n_iov, SENT_AT_ONCE - sent);
        ssize_t n = c->transport->ops->send(c->transport, iov, n_iov, fds, n_fds);
        if (n == -EAGAIN || n == -EWOULDBLOCK)
            return;
        if (n < 0) {
            struct error e;
            error_set_errno(&e, STATUS_DEVICE_UNAVAILABLE, (int)-n, "the connection broke");
            channel_fail(c, &e);
            return;
        }
        c->last_sent_ms = uv_now(c->transport->loop);
        frame_queue_sent(&c->out, (size_t)n);
        sent += (size_t)n;
    }
}

// A turn of the channel: deliver what was read before, write, read, then on_turn().
static void on_ready(struct transport *transport, int status, int events)
{
    struct channel *c = transport->owner;
    struct error e;
    turns_mark(transport->loop, "reading and writing");
    if (status < 0) {
        error_set(&e, STATUS_DEVICE_UNAVAILABLE, "the connection broke: %s", uv_strerror(status));
        channel_fail(c, &e);
    }
    if ((events & UV_DISCONNECT) && c->paused) {
        error_set(&e, STATUS_DEVICE_UNAVAILABLE, "the peer closed the connection");
        channel_fail(c, &e);
    }
    c->in_callback = true;
    c->work = CHANNEL_TURN;
    c->n_read = 0;
    channel_deliver(c);
    if (events & UV_WRITABLE) {
        bool waiting = !list_empty(&c->out.frames);
        channel_flush(c);
        if (waiting && !c->failed && list_empty(&c->out.frames) && c->ops->on_drained)
            c->ops->on_drained(c);
    }
    if (events & UV_READABLE)
        for (int i = 0; i < READS_PER_TURN && goes_on(c); i++)
            if (!channel_receive(c))
                break;
    if (c->work == 0 && !c->paused)
        channel_wake(c); // what has been read already brings no event
    if (c->ops->on_turn && !c->closing && !c->failed)
        c->ops->on_turn(c);
    c->in_callback = false;
    report_lost(c);
    update_events(c);
}

void channel_init(struct channel *c, struct transport *transport, uint64_t payload_limit,
                  bool takes_fds, const struct channel_ops *ops)
{
    *c = (struct channel){.ops = ops, .transport = transport, .takes_fds = takes_fds};
    transport->owner = c;
    transport->ready = on_ready;
    frame_queue_init(&c->out);
    frame_reader_init(&c->reader, payload_limit);
    c->reader.drop_fd = discard_fd;
    c->last_heard_ms = c->last_sent_ms = uv_now(transport->loop);
    update_events(c);
}

// A missing frame counts as out of memory: the peer would wait for it for ever, so the stream is
// given up. An error is reported in a turn of its own.
void channel_send(struct channel *c, struct frame_out *f)
{
    if (c->closing || c->lost || c->failed) {
        frame_out_free(f);
        return;
    }
    if (!f) {
        struct error e;
        error_no_memory(&e, "a message", 0);
        channel_fail(c, &e);
        c->transport->ops->wake(c->transport);
        return;
    }
    bool waiting = !list_empty(&c->out.frames);
    frame_queue_push(&c->out, f);
    if (!waiting)
        channel_flush(c);
    if (c->failed)
        c->transport->ops->wake(c->transport);
    if (!c->in_callback)
        update_events(c);
}

void channel_pause(struct channel *c)
{
    c->paused = true;
    if (!c->in_callback)
        update_events(c);
}

// Messages that were read before the pause bring no event of the transport, hence the wake.
void channel_resume(struct channel *c)
{
    if (!c->paused)
        return;
    c->paused = false;
    if (c->closing)
        return;
    c->transport->ops->wake(c->transport);
    if (!c->in_callback)
        update_events(c);
}

void channel_wake(struct channel *c)
{
    if (!c->closing && !c->failed)
        c->transport->ops->wake(c->transport);
}

// Stops at 0, which ends the turn.
void channel_spend(struct channel *c, unsigned work)
{
    c->work -= work < c->work ? work : c->work;
}

uint64_t channel_backlog(const struct channel *c)
{
    return c->out.bytes;
}

static void on_transport_closed(struct transport *transport)
{
    struct channel *c = transport->owner;
    c->on_closed(c);
}

// Frames that wait are released, which may free what they point to.
void channel_close(struct channel *c, void (*on_closed)(struct channel *c))
{
    assert(!c->closing);
    c->closing = true;
    c->on_closed = on_closed;
    frame_reader_done(&c->reader);
    frame_queue_done(&c->out);
    c->transport->closed = on_transport_closed;
    transport_close(c->transport);
}
