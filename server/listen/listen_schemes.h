// What a server can listen on: the table behind --listen.
//
// To add a way:
//   1. Write how it listens: a listen() as below. Sockets go to listener_add_bound() or
//      listener_open_fd(), which accept from them (bind.c makes Unix and TCP sockets). Anything
//      else hands each of its connections to l->take_transport() as a struct transport
//      (transport.h) of its own, and puts a struct listener_carrier into l->carriers.
//   2. Give it a row in listen_schemes.c. The help of rknnd and the errors for wrong addresses are
//      made from the rows; test_listen_schemes fails until rknnd(8) has it, too.
// The client's side is client/transport/transport.h.
#pragma once

#include "base/net/uri.h"
#include "server/listen/listener.h"

struct listen_scheme {
    struct uri_scheme uri;
    const char *help; // one line: what listens there
    bool keys;        // clients have to speak TLS there
    bool at_start;    // only then: not by a change of the configuration
    /// Listens at a parsed address; `text` is how it was written. Accepting begins with
    /// listeners_start(). May block: names are looked up.
    int (*listen)(struct listeners *l, const struct uri *uri, const char *text, struct error *e);
    /// Whether listen() may listen there, as far as that can be said before it does; NULL: it can
    /// not. May block, too.
    int (*check)(const struct listeners *l, const struct uri *uri, struct error *e);
};

/// Listens at an address. A Unix socket that nobody serves any more is replaced; of a TCP host,
/// every address is used.
int listen_at(struct listeners *l, const char *text, struct error *e);

/// The same while the server runs: into listeners that have no loop. Refuses what can be listened
/// on from the start only.
int listen_later(struct listeners *l, const char *text, struct error *e);

/// Whether it is an address to listen on at all, without doing so.
int listen_check(const struct listeners *l, const char *text, struct error *e);

/// The same, and whether what it says is there and allowed. May block: names are looked up.
int listen_check_place(const struct listeners *l, const char *text, struct error *e);

/// The forms of addresses, for the help text.
void listen_forms(char ret[static URI_FORMS_SIZE]);

/// Row `i`; NULL after the last one.
const struct listen_scheme *listen_scheme(unsigned i);
