// What is inside of base/tls. Nothing else includes it.
#pragma once

#include <openssl/ssl.h>
#include <time.h>

#include "base/tls/tls_keys.h"

// By which a file is seen to be another one than before; all 0: it could not be looked at.
struct tls_file_stamp {
    uint64_t device, inode, size;
    struct timespec modified, changed;
};

struct tls_context {
    _Atomic unsigned refs; // its owner's, and its sessions'
    SSL_CTX *ssl;
    bool server;
    struct tls_keys keys; // of a server
    char *keys_path;      // that they are read from; NULL: nowhere
    struct tls_file_stamp keys_stamp;
    struct tls_key key; // of a client; size 0: none
    bool trusts;        // somebody's certificates
    bool anonymous;     // nobody says who he is (pairing.h)
};

/// A context that takes nobody yet; on failure nothing is left.
int tls_context_new(bool server, struct tls_context **ret, struct error *e);

/// STATUS_FAIL with what OpenSSL says last.
int tls_error(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The app data of an SSL is the text, of TLS_IDENTITY_SIZE bytes, that is to be set to the identity
// whose key was found.
