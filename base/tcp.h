// TCP sockets as connections of ours want them.
#pragma once

#include <stdbool.h>
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
