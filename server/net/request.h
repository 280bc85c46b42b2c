// A request whose answer comes later. Embedded by the work behind it.
#pragma once

#include "base/list.h"
#include "protocol/message.h"

struct connection;

struct request {
    struct list link;              // in the connection
    struct connection *connection; // NULL: answered, or nobody waits for it any more
    uint32_t id;
    uint16_t type;
    struct list turn;                 // in the connection's `large`, see request_when_room()
    void (*start)(struct request *r); // of such a one
    bool started;
    /// The client has gone or has cancelled (and then has had its answer): `connection` is NULL
    /// already. Ends the work as far as possible; may free the request.
    void (*abandoned)(struct request *r);
};

/// Notes an unanswered request; its id is not in use.
void request_begin(struct request *r, struct connection *c, const struct frame_header *h,
                   void (*abandoned)(struct request *r));

/// For an answer that is large or takes work to make: calls start(r) when the connection has room
/// for it, from inside or later. A connection has one such answer made at a time, the next one when
/// that has been queued and not too much waits for a client that does not read. start() does not
/// come after the request has been abandoned or answered.
void request_when_room(struct request *r, void (*start)(struct request *r));

/// Answers with a message and payload (as message_frame()) and ends the request. When nobody waits
/// for it, only release(owner) is called.
void request_answer(struct request *r, const pb_msgdesc_t *fields, const void *message,
                    const struct iovec *segments, int n_segments, void (*release)(void *owner),
                    void *owner);

/// Answers with a message and, if it is not negative, a file descriptor (taken over).
void request_answer_fd(struct request *r, const pb_msgdesc_t *fields, const void *message, int fd);

/// Sends a part of the answer (flag MORE); the request stays. When nobody waits for it, only
/// release(owner) is called.
void request_answer_part(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         const struct iovec *segments, int n_segments, void (*release)(void *owner),
                         void *owner);

/// Answers with an error and ends the request.
void request_fail(struct request *r, const struct error *e);
