// Frames over a transport, on the loop: a client's connection or a worker's.
#pragma once

#include "protocol/message.h"
#include "server/net/transport.h"

struct channel;

// What a channel tells its owner, on the loop thread. Any of these may call channel_close().
struct channel_ops {
    /// A message is there. If h->payload_size > 0, says where the payload goes
    /// (frame_reader_payload_into or _skip on c->reader) before it returns, unless it closes.
    /// fds that came with the frame: frame_reader_take_fd() on c->reader.
    /// `message` is valid only inside.
    void (*on_message)(struct channel *c, const struct frame_header *h, struct bytes message);
    /// The payload of the last message is in place.
    void (*on_payload)(struct channel *c);
    /// Frames that had to wait have all gone; may be NULL. (Not for what channel_send() sent at
    /// once.)
    void (*on_drained)(struct channel *c);
    /// The channel has done what it could in this turn of the loop; may be NULL. channel_wake()
    /// brings one about.
    void (*on_turn)(struct channel *c);
    /// The stream has ended or is useless; comes once, not after channel_close(). The owner calls
    /// channel_close().
    void (*on_lost)(struct channel *c, const struct error *why);
};

// Embedded by its owner, who may free it only in the callback of channel_close().
struct channel {
    const struct channel_ops *ops;
    struct transport *transport;
    unsigned work; // left of this turn of the loop
    size_t n_read; // bytes, in this turn
    int events;    // that are waited for
    bool paused, closing, in_callback, takes_fds;
    bool failed, lost;                    // the stream is useless; the owner knows it
    struct error why;                     // it failed
    uint64_t last_heard_ms, last_sent_ms; // uv_now()
    struct frame_queue out;
    struct frame_reader reader;
    void (*on_closed)(struct channel *c);
};

/// Takes over `transport` and starts reading.
/// takes_fds: accept file descriptors beside frames (workers, clients on Unix sockets).
void channel_init(struct channel *c, struct transport *transport, uint64_t payload_limit,
                  bool takes_fds, const struct channel_ops *ops);

/// Queues a frame (takes ownership, also of NULL, which counts as out of memory and loses the
/// channel) and sends what the transport takes at once. After the channel is lost or closing the
/// frame is dropped. Never calls back from inside, except a frame's release().
void channel_send(struct channel *c, struct frame_out *f);

/// Stops and resumes reading: back-pressure. What has been read already is still delivered on
/// resume, from the loop.
void channel_pause(struct channel *c);
void channel_resume(struct channel *c);

// What one channel may have done in a turn of the loop before the others have theirs; a message is
// 1 of it.
#define CHANNEL_TURN 64u

/// on_turn() is to come, soon.
void channel_wake(struct channel *c);

/// The message that has been delivered costs `work` more than others: less is left of the turn.
void channel_spend(struct channel *c, unsigned work);

/// Bytes queued and not yet taken by the transport.
uint64_t channel_backlog(const struct channel *c);

/// Closes: frames still queued are dropped, no callback comes any more but on_closed, from the
/// loop, after which the struct may be freed.
void channel_close(struct channel *c, void (*on_closed)(struct channel *c));
