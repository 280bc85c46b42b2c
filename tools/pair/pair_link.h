// The connection of two `rknnctl pair`: a socket, TLS, messages, a time at which all has to be
// over, and the person at the keyboard, who is waited for while the other end may give up.
#pragma once

#include <poll.h>

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

/// Takes the socket of one who has connected, and writes where it comes from and which network that
/// is: of IPv6 one machine may have 64 bits of addresses. 1: nobody is there.
int pair_accept(int listener, int *ret, char *ret_from, char *ret_network, size_t size,
                struct error *e);

/// Until something is the case, or the time has come, which is an error; fds of -1 are not looked
/// at.
int pair_wait(struct pollfd *p, nfds_t n, uint64_t until_ms, struct error *e);

/// Takes the socket, also on failure, and does a client's handshake, in which nobody proves
/// anything.
int pair_link_open(struct pair_link *l, int fd, uint64_t until_ms, struct error *e);

/// The same of either end in two steps, of which the second never waits: 1, if it has to be called
/// again when one of pair_link_events() (of poll) has come.
int pair_link_begin(struct pair_link *l, int fd, bool server, uint64_t until_ms, struct error *e);
int pair_link_shake(struct pair_link *l, struct error *e);
short pair_link_events(const struct pair_link *l);
void pair_link_close(struct pair_link *l);

int pair_link_send(struct pair_link *l, const struct pair_message *m, struct error *e);

/// The next message, which has to be of that type. An ABORT's words become the error's.
int pair_link_receive(struct pair_link *l, enum pair_type type, struct pair_message *ret,
                      struct error *e);

/// The same in two steps that never wait: bytes (1: not all are there yet; *have begins at 0), and
/// what they say; the bytes are wiped.
int pair_link_receive_some(struct pair_link *l, uint8_t bytes[PAIR_MESSAGE_SIZE], size_t *have,
                           struct error *e);
int pair_link_read(uint8_t bytes[PAIR_MESSAGE_SIZE], enum pair_type type, struct pair_message *ret,
                   struct error *e);

/// Asks the person, and waits for a line. Whatever the other end says meanwhile ends that.
int pair_link_ask(struct pair_link *l, const char *question, char *ret, size_t size,
                  struct error *e);

/// A line that was typed, or what there is at the end; false: nothing more can come.
bool pair_read_line(char *ret, size_t size);

/// Tells the other end why this one gives up, if it can be told at once.
void pair_link_abort(struct pair_link *l, const char *why);
