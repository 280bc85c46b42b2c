// One client's connection: its state, its limits, and everything that dies with it.
#pragma once

#include "server/clients/passed.h"
#include "server/clients/rate.h"
#include "server/listen/origin.h"
#include "server/net/channel.h"
#include "server/net/request.h"
#include "server/net/rounds.h"

struct connections;
struct model;
struct options;
struct services;
struct session;
struct user;
struct users;

enum connection_state {
    CONNECTION_FRESH = 1,  // nothing but HELLO is understood
    CONNECTION_READY = 2,  // HELLO is through
    CONNECTION_ENDING = 4, // the client said goodbye: answers go out, nothing new is taken
    CONNECTION_LEAVING = 8 // nothing is read any more; closes when the queue is empty
};

struct connection {
    struct channel channel;
    struct connections *all;
    struct list link;                // in all
    const struct services *services; // for the handlers of its requests (handle/services.h)
    enum connection_state state;
    struct user *user;       // one reference; whose connection it is
    struct account *account; // the user's; the program's from HELLO on
    bool admitted;           // it is charged to the user
    unsigned rights;         // enum right (clients/rights.h); checked by dispatch
    uint64_t unread_bytes;   // of answers, as they are charged to the user
    struct rate rate;        // of what costs much
    struct passed passed;    // descriptors that it may not have read
    struct list slowed;      // in all->slowed
    uint64_t features;       // PROTOCOL_FEATURE_* that both sides have
    uint32_t number;         // "c12" in logs
    struct origin origin;
    char program[64];        // as it says, printable
    struct session *session; // one reference, from HELLO on
    struct list in_session;
    struct list contexts;     // that it opened
    struct requests requests; // unanswered
    uint64_t held_bytes;      // job buffers of requests, until the reply has been sent
    struct model *offered;    // one reference to what it last offered: kept until it opens it
    void (*payload_done)(struct connection *c, void *owner); // NULL: the payload is dropped
    void *payload_owner;
    uint64_t since_ms;  // uv_now() at which the state began
    uint64_t pinged_ms; // uv_now() of the last PING; 0: none
};

// What connections tell their owner. Loop thread only.
struct connection_ops {
    /// A message has come. The payload's destination is decided when this returns, unless the
    /// connection has been closed.
    void (*on_message)(struct connection *c, const struct frame_header *h, struct bytes message);
    /// What the answer to a message of this type costs, when it is made by request_when_room().
    uint32_t (*answer_cost_us)(uint16_t type);
    /// It closes, and its requests are abandoned already: ends what else it has.
    void (*on_closing)(struct connection *c);
    /// There may be less to wait for: an answer is queued or sent, or a connection has closed.
    void (*on_less)(struct connections *all);
};

// All connections of a daemon. Embedded by the server.
struct connections {
    uv_loop_t *loop;
    const struct options *options;   // limits and timeouts
    const struct services *services; // for each of them
    const struct connection_ops *ops;
    struct metrics *metrics; // answers that are errors
    struct list all;
    unsigned n;
    uint32_t last_number;
    struct connection *unswept; // the next one of this sweep; NULL: it has come to its end
    struct list left;   // have ended before all that was passed had been read (clients/passed.h)
    struct list slowed; // wait because they have asked for much; looked at again by `refill`
    uv_timer_t refill;
    struct rounds rounds; // in which they have their turns
};

/// The rest is the owner's to set.
void connections_init(struct connections *all, uv_loop_t *loop);

/// The next sweep's first connection is the oldest.
void connections_sweep_begin(struct connections *all);

/// The next one of this sweep, whichever have closed since; NULL: there is none any more.
struct connection *connections_sweep_next(struct connections *all);

/// When all of them have closed.
void connections_close(struct connections *all);

/// Takes over the transport, and takes a reference of the user. NULL: out of memory; it is logged,
/// the transport closed.
struct connection *connection_new(struct connections *all, struct transport *transport,
                                  const struct origin *origin, struct user *user);

/// Closes at once: requests, contexts and uploads end, queued frames are dropped. `why` is for the
/// log.
void connection_close(struct connection *c, const char *why);

/// Reads nothing more, says goodbye (NULL: without a word) and closes when the queue is empty.
void connection_leave(struct connection *c, const char *reason);

/// Tells the client that no new requests are wanted; open ones are still answered.
void connection_say_goodbye(struct connection *c, const char *reason);

/// If it came by TLS it is from now on the identity's, who has to have room for it. For HELLO,
/// while it holds nothing else; not for one that was not admitted.
int connection_identify(struct connection *c, struct users *users, struct error *e);

/// It is of this session (whose reference it takes over) from now on, if that may have one more
/// connection. For HELLO.
int connection_join(struct connection *c, struct session *session, struct error *e);

/// Answers the request that is being dispatched.
void connection_reply(struct connection *c, const struct frame_header *h,
                      const pb_msgdesc_t *fields, const void *message);
void connection_reply_error(struct connection *c, const struct frame_header *h,
                            const struct error *e);

/// The payload of the request being dispatched goes to these segments; then done(c, owner).
void connection_receive(struct connection *c, const struct iovec *segments, int n_segments,
                        void (*done)(struct connection *c, void *owner), void *owner);

/// What is left of the payload that is being received is dropped, and done() does not come.
void connection_forget_payload(struct connection *c);

/// Stops or resumes reading, as the limits say, and has large answers begun. To be called when
/// requests or bytes have come or gone.
void connection_update_flow(struct connection *c);

/// A message that costs this much is about to be handled.
void connection_spend(struct connection *c, uint32_t us);

/// Ends it for somebody who wants that: at once if it takes nothing, else with a goodbye.
void connection_kill(struct connection *c, const char *reason);

/// It has not said HELLO in time.
bool connection_is_unused(const struct connection *c, uint64_t now_ms);

/// Its TLS handshake is not through yet.
bool connection_is_unknown(const struct connection *c);

/// For how long its program has said nothing, although it was listened to.
uint64_t connection_silent_ms(const struct connection *c, uint64_t now_ms);

/// Heartbeat and timeouts.
void connection_sweep(struct connection *c, uint64_t now_ms);
