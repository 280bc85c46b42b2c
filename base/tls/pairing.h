// What makes two machines that share nothing yet sure of each other: two short codes that people
// carry from screen to screen (protocol/PROTOCOL.md, Pairing). They come out of the TLS session
// itself and of a nonce of each end, one of which was promised before the other was known: whoever
// stands in between has two sessions, cannot choose either code, and is right once in a million
// attempts.
#pragma once

#include "base/tls/tls.h"

#define PAIRING_NONCE 32u // bytes, of a commitment, too
#define PAIRING_CODE  8   // of a code's text, with its end: six digits, "123 456"

// One for each way.
struct pairing_codes {
    char of_board[PAIRING_CODE];  // shown by the board, typed at the PC
    char of_client[PAIRING_CODE]; // the other way round, after that was right
};

/// A context whose sessions prove nothing: a certificate made here, or none that is asked for.
int pairing_context(bool server, struct tls_context **ret, struct error *e);

int pairing_random(uint8_t *ret, size_t size, struct error *e);

/// What is said of a nonce before the other's is known.
int pairing_commit(const uint8_t nonce[PAIRING_NONCE], uint8_t ret[PAIRING_NONCE], struct error *e);

/// Those of a session.
int pairing_codes(struct tls *t, const uint8_t client[PAIRING_NONCE],
                  const uint8_t board[PAIRING_NONCE], struct pairing_codes *ret, struct error *e);

/// Whether what was typed is the code, however its digits are spaced.
bool pairing_code_is(const char *typed, const char code[PAIRING_CODE]);
