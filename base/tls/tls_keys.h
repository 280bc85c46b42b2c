// Pre-shared keys of TLS, as files hold them, and which files may hold secrets. A line for each:
//
//     IDENTITY:KEY [SERVER]      # KEY in hexadecimal digits, 16 to 64 bytes
//
// SERVER is for clients alone: the key is meant for tls:SERVER. Lines that begin with # are
// comments. Whatever these functions say in words, no key is in it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TLS_IDENTITY_SIZE 28 // bytes of the longest, with its end
#define TLS_KEY_MIN       16 // bytes
#define TLS_KEY_MAX       64
#define TLS_KEYS_FILE_MAX (1u << 20)
#define TLS_KEYS_MAX      1024 // of a file: a server reads it between other things
#define TLS_SERVER_SIZE   264

struct tls_key {
    char identity[TLS_IDENTITY_SIZE];
    char server[TLS_SERVER_SIZE]; // "HOST:PORT"; "": any
    uint8_t bytes[TLS_KEY_MAX];
    size_t size;
};

// Several; all 0: none.
struct tls_keys {
    struct tls_key *all;
    size_t n;
};

/// Letters, digits and . _ @ - alone, so that it can stand in options, logs and tables.
bool tls_identity_is_valid(const char *identity, size_t size);

/// Parses a file's text. An identity may be there once for each server. Errors name the line.
int tls_keys_parse(const char *text, size_t size, struct tls_keys *ret, struct error *e);

/// Reads a file that only its owner, and at most its group, can read. May block.
int tls_keys_read(const char *path, struct tls_keys *ret, struct error *e);

/// Wipes and frees them.
void tls_keys_done(struct tls_keys *k);

/// That of an identity; NULL: none.
const struct tls_key *tls_keys_find(const struct tls_keys *k, const char *identity, size_t size);

/// What a client is to use for a server ("HOST:PORT"): a key that is meant for it, else the first
/// that is meant for any. `identity`: only keys of that one; NULL: of any.
const struct tls_key *tls_keys_for(const struct tls_keys *k, const char *server,
                                   const char *identity);

/// Opens a file with a secret: a regular one, of root or of this process's user, that others than
/// its owner cannot write to, and others than its owner and its group cannot read. Returns the fd.
int tls_open_secret(const char *path, struct error *e);

/// Reads all of such a file, of at most TLS_KEYS_FILE_MAX bytes, into a text that has room for one
/// more. `path` is for words.
int tls_keys_load(int fd, char *text, size_t *size, const char *path, struct error *e);
