// What two daemons say to each other while one takes the other's place: packets over a socket pair,
// each a whole struct, some with a descriptor beside it.
//
//   old                                 new (its child)
//    | SOCKET… HTTP… COMPLETE ──────────► reads its options, listens at what is new in them
//    | ◄─────────────────────────── READY  the backend has answered
//    | accepts no more
//    | COUNTS, if the new one takes them ► its metrics go on from there
//    | YOURS ───────────────────────────►
//    | ◄───────────────────────── SERVING  accepts
//    | tells the service manager
//    | MAIN ────────────────────────────► tells it, too
//    | ◄──────── JOIN, for each connection to a session that the old one has
//    | BACK, if it has not ─────────────►
//    | COUNTS, while its sessions run ──►
//    | UNREAD, of them and when it ends ►
//
// Until SERVING either may die: the other goes on alone, with all sockets.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "protocol/message.h"

#define HANDOVER_VERSION 1 // changes with the struct, or with the meaning of a kind

enum handover_kind {
    HANDOVER_SOCKET = 1, // a socket that listens: name, address, path, tls
    HANDOVER_HTTP,       // the same, of --http
    HANDOVER_COMPLETE,   // these were all
    HANDOVER_READY,      // session: 2 if it takes COUNTS and UNREAD, 1 if COUNTS alone, 0 neither
    HANDOVER_YOURS,      // session: the first number that new sessions may have
    HANDOVER_SERVING,
    HANDOVER_MAIN,
    HANDOVER_JOIN,   // a connection that has not been read from: session, secret
    HANDOVER_BACK,   // the same: its session has ended
    HANDOVER_COUNTS, // a memfd: what is new since the last one (metrics/metrics_counts.h)
    HANDOVER_UNREAD, // a connection's socket: session: what was passed there and is not read
    HANDOVER_KINDS
};

struct handover_packet {
    uint32_t version; // set by handover_send()
    uint32_t kind;
    uint64_t session;
    uint8_t secret[HELLO_SECRET_SIZE];
    uint32_t tls;
    char name[160];
    char address[512]; // as in the options; "": the service manager's
    char path[108];    // of a Unix socket that is removed when it ends; "": none
};

/// Never waits. STATUS_DEVICE_UNAVAILABLE: the other has ended. `fd` goes along unless it is
/// negative, and stays the caller's.
int handover_send(int socket, const struct handover_packet *p, int fd, struct error *e);

#define HANDOVER_NOTHING 1 // there is none now

/// Returns 0, HANDOVER_NOTHING, or a negative status with words: the other has ended, or speaks
/// otherwise. *ret_fd is the caller's; -1: none came.
int handover_receive(int socket, struct handover_packet *ret, int *ret_fd, struct error *e);

/// Copies a text that has to fit.
#define handover_set_text(field, text, what, e) handover_copy((field), sizeof(field), text, what, e)
int handover_copy(char *field, size_t size, const char *text, const char *what, struct error *e);
