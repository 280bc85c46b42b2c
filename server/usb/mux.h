// Many streams over one pair of USB pipes: channels with credit. Pure logic, no I/O.
//
// What travels is blocks; a block is one USB transfer and holds whole packets. PROTOCOL.md ("USB")
// says what they look like. A block is longer than 64 bytes and never a multiple of that, so every
// transfer ends with a short packet at every speed, and nobody needs zero-length ones.
//
// Who has sent least comes first, and goes on for a turn, so that images of several programs are
// sent one after the other. A program that sends one now and then does not wait for another's
// upload as long as it stays below its share of the link.
//
// Credit is what a sender may still send on a channel; it keeps a program that does not read from
// holding up the others. Each direction has its own:
//
//     sender                                      receiver
//     credit = window  ──── DATA n bytes ───────► held += n           push()
//     credit -= n                                   │  mux_consumed(n): passed on
//                                                   ▼
//                                                 held -= n, owed += n
//     credit += owed   ◄─── CREDIT owed ────────  owed = 0            once it is a quarter window
//
// So credit + bytes under way + held + owed is always the window (MUX_WINDOW), and a receiver never
// needs room for more than that. At credit 0 a channel leaves the queue of those that send.
//
// The PC's end opens channels. Both ends start over when the PC says HELLO, so stale blocks of an
// earlier owner of the link do no harm.
#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"

#define MUX_VERSION  1
#define MUX_BLOCK    (32u * 1024)   // bytes; transfers are shorter
#define MUX_WINDOW   (1024u * 1024) // of a channel and direction, under way or not yet passed on
#define MUX_TURN     (256u * 1024)  // that a channel sends before those that have sent no less
#define MUX_SAVED    MUX_WINDOW // by which a channel may have sent less than others, as it counts
#define MUX_CHANNELS 1024u      // at a time

struct mux;

// One stream. Embedded by its owner.
struct mux_channel {
    struct list link;
    struct list turn; // in mux->ready, while it has something to send and credit for it
    struct mux *mux;  // NULL: closed, by whichever end
    uint32_t number;
    bool announced;  // the peer knows of it
    bool ready;      // has something to send
    uint32_t credit; // bytes that the peer takes
    uint32_t held;   // bytes that it gave us and that are not passed on
    uint32_t owed;   // bytes that are, and that it has no credit for yet
    uint64_t sent;   // bytes; who has sent too little counts as if it had sent more (MUX_SAVED)
    uint64_t rank;   // what `sent` was when its turn began
};

// What the owner of a mux does for it.
struct mux_ops {
    /// The PC opens a channel (board's end): mux_accept(), or false to refuse.
    bool (*open)(struct mux *m, uint32_t number);
    /// Reads at most `size` bytes to send. Returns how many; fewer than `size`: no more now, until
    /// mux_ready(); negative: the stream is at its end. May close channels from inside; if it
    /// closes this one, what it returns still goes, and the struct stays until it returns.
    int (*pull)(struct mux_channel *ch, uint8_t *into, size_t size);
    /// Bytes came; all are to be taken. mux_consumed() tells, from inside or later, when they have
    /// been passed on; MUX_WINDOW are never exceeded.
    void (*push)(struct mux_channel *ch, struct bytes data);
    /// The channel is gone: by its peer, or because the link started over or broke. Its owner may
    /// free it.
    void (*closed)(struct mux_channel *ch);
    /// mux_fill() has something.
    void (*wake)(struct mux *m);
};

enum mux_state {
    MUX_DOWN,     // no link
    MUX_GREETING, // HELLO is not through
    MUX_UP,
};

struct mux {
    const struct mux_ops *ops;
    bool host; // the PC's end
    enum mux_state state;
    uint64_t nonce;              // of this conversation; chosen by the PC
    bool say_hello, say_restart; // with the next block
    struct list all;
    struct list ready; // by rank, the lowest first
    uint64_t sent;     // as the one counts that has sent most
    unsigned n_channels;
    uint32_t next;      // number
    uint32_t window;    // the peer's
    unsigned n_owing;   // channels whose credit is worth a packet
    struct bytes *lent; // while a block is filled whose last bytes need not be copied; else NULL
    bool fills;         // what is pulled goes to the end of the block
    unsigned n_closes;
    uint32_t closes[MUX_CHANNELS]; // numbers of channels that the peer is to be told of
};

void mux_init(struct mux *m, bool host, const struct mux_ops *ops);

/// The link works, or is to start over. `nonce` (PC's end) names the conversation: a new one.
void mux_start(struct mux *m, uint64_t nonce);

/// The link is gone: every channel closes. Safe to repeat.
void mux_stop(struct mux *m);

/// Opens a channel (PC's end).
int mux_open(struct mux *m, struct mux_channel *ch, struct error *e);

/// From inside of open(): this is the channel.
void mux_accept(struct mux *m, struct mux_channel *ch, uint32_t number);

/// The channel has something to pull, be it its end.
void mux_ready(struct mux_channel *ch);

/// From inside of pull(): the last of the bytes that it returns are here instead. Together they are
/// as many as it was asked for, and these stay until the block is submitted. False: they are to be
/// copied.
bool mux_lend(struct mux_channel *ch, struct bytes data);

/// `n` of the bytes pushed have been passed on. Nothing happens to a closed channel.
void mux_consumed(struct mux_channel *ch, size_t n);

/// The owner wants no more of it: nothing is called back, and the struct may be freed. Safe to
/// repeat.
void mux_close(struct mux_channel *ch);

/// After an error of mux_receive() at the board's end: every channel closes, and the PC is asked to
/// start over.
void mux_refuse(struct mux *m);

/// One block from the peer. An error: the peer does not keep to the protocol, or (PC's end) wants
/// to start over.
int mux_receive(struct mux *m, struct bytes block, struct error *e);

/// The next block to send, into MUX_BLOCK bytes. Returns its size; 0: nothing to send.
size_t mux_fill(struct mux *m, uint8_t *block);

/// The same, but for its last bytes (*ret_lent, possibly none), which follow those in `block`. They
/// are to be sent, or copied, before anything else happens to the mux.
size_t mux_fill_and_lend(struct mux *m, uint8_t *block, struct bytes *ret_lent);
