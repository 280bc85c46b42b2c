// The connection of two `rknnctl pair`: a socket, TLS, messages, a time at which all has to be
// over, and the person at the keyboard, who is waited for while the other end may give up.
#pragma once

#include "base/tls/stream_tls.h"
#include "tools/pair/pair_message.h"

struct pair_link {
    int fd; // -1: not open
    struct stream_tls *tls;
    uint64_t until_ms;
};

/// Connects to one of HOST's addresses. Returns the socket.
int pair_connect(const char *host, uint16_t port, uint64_t until_ms, struct error *e);

/// A socket that listens there; HOST "": at all of this machine's addresses.
int pair_listen(const char *host, uint16_t port, struct error *e);

/// Waits for the next one who connects, and writes where it comes from. Returns the socket.
int pair_accept(int listener, uint64_t until_ms, char *ret_from, size_t size, struct error *e);

/// Takes the socket, also on failure, and does the handshake, in which nobody proves anything.
int pair_link_open(struct pair_link *l, int fd, bool server, uint64_t until_ms, struct error *e);
void pair_link_close(struct pair_link *l);

int pair_link_send(struct pair_link *l, const struct pair_message *m, struct error *e);

/// The next message, which has to be of that type. An ABORT's words become the error's.
int pair_link_receive(struct pair_link *l, enum pair_type type, struct pair_message *ret,
                      struct error *e);

/// Asks the person, and waits for a line. Whatever the other end says meanwhile ends that.
int pair_link_ask(struct pair_link *l, const char *question, char *ret, size_t size,
                  struct error *e);

/// Tells the other end why this one gives up, if it can be told at once.
void pair_link_abort(struct pair_link *l, const char *why);
