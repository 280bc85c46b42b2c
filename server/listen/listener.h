// Where clients arrive: sockets that listen, and the socket over which a parent hands connections
// over (--adopt).
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "server/listen/origin.h"
#include "server/net/transport.h"

// Embedded by who serves the connections.
struct listeners {
    uv_loop_t *loop;
    const char *socket_group; // who else may use Unix sockets; NULL: nobody
    const gid_t *groups;      // in which programs may be: origin.groups; stay
    unsigned n_groups;
    bool insecure;       // TCP may be reached from other machines
    bool lent;           // those that are added now are another process's, too
    bool paused;         // listeners_pause()
    bool tls;            // there are keys for TLS (connections are told by origin.tls)
    const char *address; // what sockets that are added now are known by (listeners_close_address)
    /// Serves a connected stream socket (taken over).
    void (*take)(struct listeners *l, int fd, const struct origin *origin);
    /// The same for what is not a socket. NULL: only sockets are served.
    void (*take_transport)(struct listeners *l, struct transport *t, const struct origin *origin);
    /// The program that hands connections over (listener_adopt) has ended. The others listen on.
    void (*orphaned)(struct listeners *l);
    struct list all;
    struct list carriers;
};

// Something else that connections come from, and that carries their bytes: a USB link. Embedded by
// who makes it.
struct listener_carrier {
    struct list link;
    void (*close)(struct listener_carrier *c); // frees it
};

/// No sockets yet. The caller fills in the rest.
void listeners_init(struct listeners *all, uv_loop_t *loop);

/// Takes over a socket that was bound here (a bind_taker, bind.h; `owner` is the struct listeners).
int listener_add_bound(void *owner, int fd, const char *name, const char *unlink_path,
                       struct error *e);

/// The same, and clients have to speak TLS there.
int listener_add_tls(void *owner, int fd, const char *name, const char *unlink_path,
                     struct error *e);

/// Takes over a socket that listens already; `name` is for logs. One that other machines can reach
/// needs `tls`, or `insecure`.
int listener_open_fd(struct listeners *all, int fd, bool tls, const char *name, struct error *e);

/// Takes connections that arrive as file descriptors over the Unix socket `fd`.
int listener_adopt(struct listeners *all, int fd, struct error *e);

#define LISTENER_URI_SIZE 128

/// The addresses that other machines can reach, by TLS or without, as URIs. Returns how many there
/// are, also when that is more than `max`.
unsigned listeners_find_public(const struct listeners *all, bool tls,
                               char (*ret)[LISTENER_URI_SIZE], unsigned max);

// A listening socket as another process needs it.
struct listener_view {
    int fd;
    bool tls;
    const char *name, *unlink_path, *address; // the last two may be NULL
};

/// Takes over v->fd, also on failure. Until listeners_own() another process has the socket, too.
int listener_take_over(struct listeners *all, const struct listener_view *v, struct error *e);
void listeners_own(struct listeners *all);

/// Shows each socket, until one does not return 0.
typedef int listener_viewer(void *owner, const struct listener_view *v, struct error *e);
int listeners_view(const struct listeners *all, listener_viewer *see, void *owner, struct error *e);

/// What the i-th was added under; NULL: nothing, or there is none.
unsigned listeners_count(const struct listeners *all);
const char *listeners_address(const struct listeners *all, unsigned i);

/// Accepts nothing, while the sockets queue connections, and goes on.
void listeners_pause(struct listeners *all);
void listeners_resume(struct listeners *all);

/// Closes them, and leaves their files to who has them now.
void listeners_give_up(struct listeners *all);

/// Makes a connected socket that another process has accepted as if it had been here, and says who
/// is at its other end.
void listeners_prepare(struct listeners *all, int fd, struct origin *ret);

/// Those that have not begun yet.
void listeners_start(struct listeners *all);

/// Those of `more`, which have not begun, become part of `all`, and begin with the next
/// listeners_start(). A struct of which listeners_start() is not called belongs to no loop: it may
/// be filled, and closed, on any thread.
void listeners_join(struct listeners *all, struct listeners *more);

/// Closes those that were added under this address. False: there is none.
bool listeners_close_address(struct listeners *all, const char *address);

/// Closes all sockets; Unix sockets that were made here are removed.
void listeners_close(struct listeners *all);

/// Closes the rest, after the connections that came from it.
void listeners_close_carriers(struct listeners *all);
