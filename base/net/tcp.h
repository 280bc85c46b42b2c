// TCP sockets as connections of ours want them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define TCP_SEGMENT_MAX 65536 // bytes, on any network

/// Whether an address is one of the loopback interface, which other machines cannot reach.
bool tcp_is_loopback(const struct sockaddr *address);

/// To be called before a socket connects to `peer`, or when it has been accepted from there: small
/// messages are not held back, and on the loopback interface, which is never congested, nothing is
/// spaced out, as bbr does where a system has chosen it. Sockets of other families stay as they
/// are.
void tcp_prepare(int socket, const struct sockaddr *peer);

/// Acknowledges what has been read instead of waiting up to 40 ms for something to send. A peer
/// that did not do without Nagle's algorithm holds back the last, small segment of what it sends
/// until then; adb's server is one.
void tcp_acknowledge(int socket);

// Whether the machine at a connection's other end is still there. Its kernel answers for a program
// that is stopped, so a program's own silence says nothing about that. All 0 at first.
struct tcp_answers {
    uint64_t heard_ms;    // when a segment was last seen to have come; 0: never looked
    uint64_t asked_ms;    // since when segments have been seen to be unanswered; 0: none are
    uint32_t n_in, n_out; // segments, at heard_ms
};

/// Makes the kernel ask for an answer after `idle_ms` (in whole seconds) without one, again and
/// again, so that tcp_is_gone() has something to see.
void tcp_keep_asking(int socket, uint32_t idle_ms, uint32_t timeout_ms);

/// Whether nothing has come for `timeout_ms` though at least two segments have been sent since. To
/// be called several times in that time. A peer whose window is closed is asked at intervals that
/// grow to 2 minutes on kernels before Linux 6.15, so that it then takes up to twice that.
bool tcp_is_gone(struct tcp_answers *a, int socket, uint64_t now_ms, uint32_t timeout_ms);

/// What to do when bind() or listen() has failed with this errno: "" or "; …".
const char *tcp_listen_advice(int error);
