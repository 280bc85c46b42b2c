// Pairing (base/tls/pairing.h) as the two ends go through it, each with a person in front of it.
#pragma once

#include "tools/pair/pair_link.h"

// What both need to know.
struct pair {
    const char *host;       // PC: of the board; board: where to listen, "": everywhere
    uint16_t port;          // of pairing
    const char *identity;   // PC: whom the key is for
    const char *file;       // where the key goes to
    uint16_t daemon_port;   // board
    uint64_t wait_ms;       // for the other end, and for people
    char server[300];       // PC: "HOST:PORT" of the daemon, once it is known
    char paired[PAIR_TEXT]; // the other end's name, once it is known
};

int pair_with_board(struct pair *p, struct error *e);
int pair_with_client(struct pair *p, struct error *e);

/// Keeps the key for `identity`; server "": on the board.
int pair_store(const struct pair *p, const char *identity, const char *server,
               const uint8_t key[PAIR_BYTES], struct error *e);

/// Fails with the words for a code that is not the one that was typed.
int pair_differs(struct error *e);
