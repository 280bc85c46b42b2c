// SHA-256, by OpenSSL: the names of models.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SHA256_SIZE 32

// A hash in the making. Embedded; zero-initialised is done().
struct sha256 {
    void *state;
};

int sha256_init(struct sha256 *h, struct error *e);
void sha256_update(struct sha256 *h, const void *data, size_t size);

/// Gives the hash of everything so far and frees the state: only init() may follow.
void sha256_final(struct sha256 *h, uint8_t ret[SHA256_SIZE]);
void sha256_done(struct sha256 *h);

/// All at once.
int sha256(const void *data, size_t size, uint8_t ret[SHA256_SIZE], struct error *e);
