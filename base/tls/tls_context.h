// What the TLS sessions of a server, or of a client, have in common: keys, certificates, whom to
// trust. TLS 1.3 alone, always with a Diffie-Hellman exchange; no early data, no tickets.
#pragma once

#include "base/tls/tls_keys.h"

struct tls_context; // may be shared by threads once it is made

// Texts are paths, NULL: none.
struct tls_files {
    const char *psk;  // pre-shared keys (tls_keys.h)
    const char *cert; // our certificate and its chain (PEM)
    const char *key;  // its key (PEM; tls_open_secret())
    const char *ca;   // whose certificates of the others count (PEM)
    const char *crl;  // which of these count no longer (tls_revoked.h)
};

/// For a server: pre-shared keys, or a certificate, its key and whom to trust, or both. Whoever
/// has neither a key nor a certificate that counts does not get through. May block.
int tls_server_context(const struct tls_files *files, struct tls_context **ret, struct error *e);

/// For connections to a server ("HOST:PORT", as keys name it): a key of the file, or `ca`, or both.
/// `identity`: of the key; NULL: of any. May block.
int tls_client_context(const struct tls_files *files, const char *server, const char *identity,
                       struct tls_context **ret, struct error *e);

/// Reads a server's pre-shared keys again if their file is not what it was: for handshakes from now
/// on, sessions stay. 1: read; 0: nothing has changed. Failure, which is told once for each change,
/// leaves the old ones. Blocks as local files do.
int tls_context_refresh(struct tls_context *c, struct error *e);

/// Sessions that were made of it go on.
void tls_context_free(struct tls_context *c);
