// One who has connected to a board that waits to be paired: how far it has come, without waiting
// for it.
//
//     SHAKES ── TLS ─► GREETS ── HELLO, NONCE ─► REVEALS ── REVEAL ─► SHOWN ── AGREED ─► AGREED
//
// What is to be done for the codes is done at SHOWN; the person sees the guest from there on.
#pragma once

#include "base/tls/pairing.h"
#include "tools/pair/pair_link.h"

enum guest_state { GUEST_SHAKES, GUEST_GREETS, GUEST_REVEALS, GUEST_SHOWN, GUEST_AGREED };

#define GUEST_FROM 64

struct pair_guest {
    struct pair_link link; // fd -1: nobody
    enum guest_state state;
    uint64_t since_ms;
    uint8_t bytes[PAIR_MESSAGE_SIZE]; // of the message that is coming
    size_t have;
    uint8_t commitment[PAIRING_NONCE], nonce[PAIRING_NONCE];
    struct pairing_codes codes; // from SHOWN on
    char name[PAIR_TEXT];       // that it gives itself, from SHOWN on
    char from[GUEST_FROM];      // its address
    char network[GUEST_FROM];   // of IPv6 the network of 64 bits, which one machine can have all of
};

/// Takes the socket, also on failure; `g->from` and `g->network` are set already.
int pair_guest_begin(struct pair_guest *g, int fd, struct error *e);

/// As far as it goes with what has arrived. 0: it waits for more; compare `state`. Negative: it is
/// to be dropped, with these words.
int pair_guest_go_on(struct pair_guest *g, struct error *e);

/// Tells it why, if it listens. NULL: it is told nothing.
void pair_guest_drop(struct pair_guest *g, const char *why);
