// The new daemon's side of an upgrade (handover.h): it gets its sockets from the one before, and
// hands connections back to it that belong to sessions there.
#pragma once

#include <uv.h>

#include "server/upgrade/doorstep.h"
#include "server/upgrade/handover.h"

struct http;
struct listeners;
struct options;

// Embedded by the server. Loop thread only.
struct succession {
    uv_loop_t *loop;
    int fd; // -1: there is no daemon before this one, or it has ended
    bool watched;
    bool waiting; // for its YOURS
    uv_poll_t poll;
    char gone[108];         // a path that nobody listens at any more; "": none
    uint64_t first_session; // those of lower numbers are there
    struct doorstep doorstep;
    /// The sockets are this daemon's alone from now on.
    void (*begin)(struct succession *s);
    /// The service manager knows this process.
    void (*known)(struct succession *s);
    /// Serves a connection (taken over).
    void (*take)(struct succession *s, int fd, const struct origin *origin);
    /// One that was handed back comes back (taken over).
    void (*returned)(struct succession *s, int fd);
    /// The other says what is not its turn to say, before this one serves: it is not to.
    void (*failed)(struct succession *s, const struct error *e);
    /// It has counted something (a memfd, taken over).
    void (*counted)(struct succession *s, int fd);
    /// Descriptors that it has passed through a socket (taken over) are not read.
    void (*unread)(struct succession *s, int socket, uint64_t n);
    /// The daemon before has ended.
    void (*ended)(struct succession *s);
};

/// The caller sets what is called.
void succession_init(struct succession *s, uv_loop_t *loop);

/// Takes over `fd`, and receives all sockets; waits for them. They are the other daemon's, too,
/// until begin(). One of HTTP that the options do not name any more is closed. If the other daemon
/// ends meanwhile, what came is kept.
int succession_receive(struct succession *s, int fd, const struct options *o, struct listeners *l,
                       struct http *h, struct error *e);

/// This daemon can serve: begin() follows.
void succession_ready(struct succession *s);

/// A new connection (taken over): take() follows, unless it belongs to the daemon before.
void succession_meet(struct succession *s, int fd, const struct origin *origin);

/// Gives a connection to the daemon before, if its session may be there. False: it stays the
/// caller's.
bool succession_pass(struct succession *s, int fd, const struct handover_packet *join);

void succession_close(struct succession *s);
