// Frames: a fixed header, a small message, a payload of any size. Bytes only; no I/O, no meaning.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"

// PROTOCOL.md, "Frames". All numbers little-endian:
//   0 magic u32 | 4 type u16 | 6 flags u8 | 7 number of fds u8 | 8 request id u32
//   12 message size u32 | 16 payload size u64 | 24 message | payload
#define FRAME_MAGIC       0x444e4b52u // the bytes "RKND"
#define FRAME_HEADER_SIZE 24
#define FRAME_MESSAGE_MAX 8192
#define FRAME_MAX_FDS     2 // file descriptors beside one frame

enum frame_flags {
    FRAME_REPLY = 1, // answers the request of the same id
    FRAME_ERROR = 2, // with FRAME_REPLY: the message is Error
    FRAME_MORE = 4,  // with FRAME_REPLY: the answer continues in another frame
};

struct frame_header {
    uint16_t type;
    uint8_t flags;
    uint8_t n_fds; // sent with the frame's first byte
    uint32_t id;
    uint32_t message_size;
    uint64_t payload_size;
};

void frame_header_write(uint8_t out[FRAME_HEADER_SIZE], const struct frame_header *h);

/// Checks everything but the payload size, which is the reader's to judge.
int frame_header_read(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *ret,
                      struct error *e);

// ---- reading -----------------------------------------------------------------------------------

#define FRAME_MAX_SEGMENTS 128
#define FRAME_READER_FDS   (2 * FRAME_MAX_FDS) // of one frame not yet complete, and of the next

enum frame_event {
    FRAME_NEED_MORE, // nothing yet: read into frame_reader_space()
    FRAME_MESSAGE,   // header and message are there; say where the payload goes, if there is one
    FRAME_PAYLOAD,   // the payload is where it was to go
};

// Takes a byte stream apart. Payload bytes are read straight to their destination; only what comes
// in one read with a header (at most FRAME_MESSAGE_MAX) is copied. Embedded by its owner, 10 KB.
struct frame_reader {
    uint64_t payload_limit;
    struct frame_header header; // of the current frame
    uint64_t payload_left;      // bytes still to come
    enum { FRAME_READER_HEAD, FRAME_READER_DECIDE, FRAME_READER_BODY } state;
    bool skip;
    int n_segments, segment; // of the destination; `segment` is being filled
    size_t start, end;       // unconsumed bytes in buffer
    size_t message;          // offset of the message in buffer
    int n_fds;               // received and not taken
    int n_frame_fds;         // the first of them are the current frame's
    int fds[FRAME_READER_FDS];
    void (*drop_fd)(int fd); // closes one that was not taken
    struct iovec segments[FRAME_MAX_SEGMENTS];
    uint8_t buffer[FRAME_HEADER_SIZE + FRAME_MESSAGE_MAX];
};

void frame_reader_init(struct frame_reader *r, uint64_t payload_limit);

/// Closes all fds that were not taken.
void frame_reader_done(struct frame_reader *r);

/// Where the next bytes of the stream go; never 0 long after NEED_MORE. On a Unix socket fds that
/// come with them are appended to r->fds (fd_receive() with r->fds, &r->n_fds, FRAME_READER_FDS).
/// The kernel joins what was sent separately, so the fds of one read may belong to a later frame
/// than its first; the header says how many are whose.
size_t frame_reader_space(struct frame_reader *r, void **ret);

/// How many bytes must come before next() has anything but NEED_MORE; at least 1.
uint64_t frame_reader_need(const struct frame_reader *r);

/// `n` bytes, at most what space() gave, have been put there.
void frame_reader_fill(struct frame_reader *r, size_t n);

/// The next event (enum frame_event), or a negative status after which the stream is useless.
/// To be called until NEED_MORE before more is read.
int frame_reader_next(struct frame_reader *r, struct error *e);

/// The message of the current frame; valid until next().
struct bytes frame_reader_message(const struct frame_reader *r);

/// The next fd of the current frame, from now on the caller's; -1 when there is none left, or when
/// it was lost because this process may not open more. Those that are not taken are closed when the
/// next frame begins.
int frame_reader_take_fd(struct frame_reader *r);

/// After FRAME_MESSAGE with header.payload_size > 0, before next(): where the payload goes. The
/// segments' lengths add up to it; they are copied, what they point to must stay until
/// FRAME_PAYLOAD. n is at most FRAME_MAX_SEGMENTS.
void frame_reader_payload_into(struct frame_reader *r, const struct iovec *segments, int n);

/// … or nowhere: the bytes are read and dropped, and then FRAME_PAYLOAD comes.
void frame_reader_payload_skip(struct frame_reader *r);

/// While a payload is being read: drops the rest of it. FRAME_PAYLOAD still comes.
void frame_reader_payload_forget(struct frame_reader *r);

// ---- writing -----------------------------------------------------------------------------------

// One frame on its way out.
struct frame_out {
    struct list link;
    size_t head_size;     // header and message
    uint64_t total, sent; // bytes of the whole frame
    int n_segments;
    int n_fds;
    int fds[FRAME_MAX_FDS];       // owned; go with the first byte
    struct iovec *segments;       // payload; the bytes are not owned
    void (*release)(void *owner); // called once, when sent or dropped; may be NULL
    void *owner;
    uint8_t head[];
};

/// Header and encoded message (copied). NULL when out of memory. type, flags and id from `h`; its
/// sizes are set here. `segments` are the payload, copied as pointers; they must stay until
/// release(owner). On failure release is not called.
struct frame_out *frame_out_new(const struct frame_header *h, struct bytes message,
                                const struct iovec *segments, int n_segments,
                                void (*release)(void *owner), void *owner);
void frame_out_free(struct frame_out *f);

// Frames in the order in which they are to be sent.
struct frame_queue {
    struct list frames;
    uint64_t bytes; // not yet sent
};

void frame_queue_init(struct frame_queue *q);
void frame_queue_done(struct frame_queue *q); // drops what is left

/// Takes ownership of f, which now has all its fds.
void frame_queue_push(struct frame_queue *q, struct frame_out *f);

/// The next bytes, for sendmsg(). Returns the number of vectors, 0 when there is nothing. Stops
/// before a later frame that carries fds; *ret_fds are those of the first byte.
int frame_queue_peek(struct frame_queue *q, struct iovec *iov, int max, const int **ret_fds,
                     int *ret_n_fds);

/// `n` of these bytes have gone (n > 0: the fds with them; they are closed here).
void frame_queue_sent(struct frame_queue *q, size_t n);
