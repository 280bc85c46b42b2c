// Lists of certificates that count no longer, though they have not expired (CRLs, RFC 5280).
#pragma once

#include <openssl/types.h>

#include "base/error.h"

/// From now on no certificate counts that a list of the file has, nor one of an authority of which
/// there is no list, or an expired one. `path`: lists in PEM, one at least of each authority that
/// `ssl` trusts, with that one's signature. May block.
int tls_revoked_use(SSL_CTX *ssl, const char *path, struct error *e);
