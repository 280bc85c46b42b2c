// What two `rknnctl pair` say to each other, inside TLS (protocol/PROTOCOL.md, Pairing). Every
// message has the same size, and what a type does not use is 0.
//
//     PC ── HELLO (commitment, identity) ─► board        PC ◄── NONCE (nonce, name) ── board
//     PC ── REVEAL (nonce) ───────────────► board        the board's code is typed at the PC
//     PC ── AGREED ───────────────────────► board        the PC's code is typed at the board
//     PC ◄── KEY (key, port) ────────────── board        PC ── STORED ─► board
//
// ABORT, with words, may come from either end at any time.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define PAIR_BYTES        32u
#define PAIR_TEXT         160u // with its end
#define PAIR_MESSAGE_SIZE (8u + 2u + 2u + PAIR_BYTES + PAIR_TEXT)

enum pair_type {
    PAIR_HELLO = 1,
    PAIR_NONCE,
    PAIR_REVEAL,
    PAIR_AGREED,
    PAIR_KEY,
    PAIR_STORED,
    PAIR_ABORT,
};

struct pair_message {
    enum pair_type type;
    uint16_t port;             // KEY: of the daemon
    uint8_t bytes[PAIR_BYTES]; // HELLO: a commitment; NONCE, REVEAL: a nonce; KEY: a key
    char text[PAIR_TEXT];      // HELLO: an identity; NONCE: the board's name; ABORT: why
};

void pair_message_write(const struct pair_message *m, uint8_t ret[PAIR_MESSAGE_SIZE]);

/// Texts can be shown as they are.
int pair_message_read(const uint8_t bytes[PAIR_MESSAGE_SIZE], struct pair_message *ret,
                      struct error *e);

/// "HELLO", for words.
const char *pair_type_name(enum pair_type type);
