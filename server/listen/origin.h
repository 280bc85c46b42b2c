// Where a connection comes from.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/tls/tls_keys.h"

#define ORIGIN_SOURCE_SIZE  56
#define ORIGIN_USB          "usb"
#define ORIGIN_TLS          "tls/" // before an identity: the user's name
#define ORIGIN_SOCKET_GROUP 63     // number of the sockets' group among origin.groups

// Who is at the other end of a connection, as the kernel says.
struct origin {
    bool local;                       // a Unix socket: descriptors can pass
    bool tls;                         // says who it is in a TLS handshake (transport_secure.h)
    bool remote;                      // another machine, by network: it may be gone without a word
    pid_t pid;                        // of a local one, as uid
    uid_t uid;                        // -1: one whom this user namespace does not have
    bool member;                      // of a local one: in the group that the service runs as
    uint64_t groups;                  // bit i: it is in groups[i] of origin_set_peer()
    char source[ORIGIN_SOURCE_SIZE];  // of another: "10.0.0.7", "2001:db8:0:1::/64", ORIGIN_USB
    char identity[TLS_IDENTITY_SIZE]; // that it proved by TLS, from HELLO on; "": none
    char text[96];                    // for logs: "unix, pid 12, uid 1000"
};

/// Whether options name programs so that do not run on this machine: "tcp", "tls", "usb", or "tls/"
/// and what can be an identity.
bool origin_is_kind(const char *who);

struct sockaddr;

/// Sets `source` from the address of another machine. Whoever has one IPv6 address has all of its
/// network, of 64 bits, so that is what counts.
void origin_set_source(struct origin *o, const struct sockaddr *peer);

/// Sets what the kernel says of the program at the other end of a Unix socket, and in which of
/// these groups (at most 64) it is.
void origin_set_peer(struct origin *o, int socket, const gid_t *groups, unsigned n_groups);

/// Whether the program that made a local connection has ended. Its children may have it still.
bool origin_is_gone(const struct origin *o);

/// Whether the program of a local one is stopped, by a debugger or a signal. (What is frozen with
/// its control group is not told apart from what sleeps.)
bool origin_is_stopped(const struct origin *o);

/// Root, or the user that the service runs as, on this machine.
bool origin_is_operator(const struct origin *o);
