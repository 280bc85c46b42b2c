// What is inside of base/tls. Nothing else includes it.
#pragma once

#include <openssl/ssl.h>

#include "base/tls/tls_keys.h"

struct tls_context {
    _Atomic unsigned refs; // its owner's, and its sessions'
    SSL_CTX *ssl;
    bool server;
    struct tls_keys keys; // of a server
    struct tls_key key;   // of a client; size 0: none
    bool trusts;          // somebody's certificates
};

/// STATUS_FAIL with what OpenSSL says last.
int tls_error(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The app data of an SSL is the text, of TLS_IDENTITY_SIZE bytes, that is to be set to the identity
// whose key was found.
