// A request whose answer comes later. Embedded by the work behind it.
#pragma once

#include "base/list.h"
#include "server/net/channel.h"

struct connection;
struct requests;

struct requests_ops {
    /// Whether a large answer may be made now.
    bool (*has_room)(const struct requests *all);
    /// The large answer to a message of this type is about to be made.
    void (*spend)(struct requests *all, uint16_t type);
    /// A request has begun, or an answer is queued. May not free requests.
    void (*changed)(struct requests *all);
    /// The answer of one is an error.
    void (*failed)(struct requests *all, int code);
};

// The unanswered requests of one connection. Embedded in it.
struct requests {
    const struct requests_ops *ops;
    struct connection *connection; // whose they are
    struct channel *channel;       // that takes the answers
    struct list all;
    struct list large; // those of request_when_room(), in order: the first one may have started
    unsigned n;
};

struct request {
    struct requests *all;
    struct list link;              // in all
    struct connection *connection; // NULL: answered, or nobody waits for it any more
    uint32_t id;
    uint16_t type;
    struct list turn;                 // in all->large, see request_when_room()
    void (*start)(struct request *r); // of such a one
    bool started;
    /// The client has gone or has cancelled (and then has had its answer): `connection` is NULL
    /// already. Ends the work as far as possible; may free the request.
    void (*abandoned)(struct request *r);
};

void requests_init(struct requests *all, const struct requests_ops *ops,
                   struct connection *connection, struct channel *channel);

/// The connection closes: nobody waits for any of them.
void requests_abandon(struct requests *all);

/// The one with this id; NULL if there is none.
struct request *requests_find(struct requests *all, uint32_t id);

/// Whether a large answer may be made now.
bool requests_have_room(const struct requests *all);

/// Whether there is a large answer that can be begun, and begins those there is room for.
bool requests_have_large(const struct requests *all);
void requests_start_large(struct requests *all);

/// Notes an unanswered request; its id is not in use.
void request_begin(struct request *r, struct requests *all, const struct frame_header *h,
                   void (*abandoned)(struct request *r));

/// A request in memory of its own: a struct of this size that begins with it, all else 0. It is
/// freed when it is abandoned; else by who answers it. NULL: out of memory.
void *request_new(struct requests *all, const struct frame_header *h, size_t size, struct error *e);

/// For an answer that is large or takes work to make: calls start(r) when the connection has room
/// for it, from inside or later. A connection has one such answer made at a time, the next one when
/// that has been queued and not too much waits for a client that does not read. start() does not
/// come after the request has been abandoned or answered.
void request_when_room(struct request *r, void (*start)(struct request *r));

/// The same, and never from inside: in a turn of the connection. For who has many to answer.
void request_in_turn(struct request *r, void (*start)(struct request *r));

/// From start(): the answer takes more work. start() comes once more, in another turn of the
/// connection, which pays for that as for another answer.
void request_continue(struct request *r);

/// Answers with a message and payload (as message_frame()) and ends the request. When nobody waits
/// for it, only release(owner) is called.
void request_answer(struct request *r, const pb_msgdesc_t *fields, const void *message,
                    const struct iovec *segments, int n_segments, void (*release)(void *owner),
                    void *owner);

/// As request_answer() with a copy of one segment; out of memory for it (`what`, for the words), it
/// answers with that error.
void request_answer_copy(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         struct bytes payload, const char *what);

/// Answers with a message and, if it is not negative, a file descriptor (taken over).
void request_answer_fd(struct request *r, const pb_msgdesc_t *fields, const void *message, int fd);

/// Sends a part of the answer (flag MORE); the request stays. When nobody waits for it, only
/// release(owner) is called.
void request_answer_part(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         const struct iovec *segments, int n_segments, void (*release)(void *owner),
                         void *owner);

/// Answers with an error and ends the request.
void request_fail(struct request *r, const struct error *e);
