// SHA-256 by OpenSSL, which uses the CPU's instructions for it. Models of hundreds of megabytes are
// hashed piece by piece while they arrive. Only starting can fail (no memory, or OpenSSL's
// configuration forbids the algorithm).
#include "base/sha256.h"

#include <assert.h>
#include <openssl/evp.h>

int sha256_init(struct sha256 *h, struct error *e)
{
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    if (!state || EVP_DigestInit_ex(state, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(state);
        return error_set(e, STATUS_MALLOC_FAIL, "OpenSSL cannot start a SHA-256");
    }
    h->state = state;
    return 0;
}

void sha256_update(struct sha256 *h, const void *data, size_t size)
{
    int good = EVP_DigestUpdate(h->state, data, size);
    assert(good == 1);
    (void)good;
}

// Frees the state too; done() after it is harmless.
void sha256_final(struct sha256 *h, uint8_t ret[SHA256_SIZE])
{
    int good = EVP_DigestFinal_ex(h->state, ret, NULL);
    assert(good == 1);
    (void)good;
    sha256_done(h);
}

void sha256_done(struct sha256 *h)
{
    EVP_MD_CTX_free(h->state);
    h->state = NULL;
}

int sha256(const void *data, size_t size, uint8_t ret[SHA256_SIZE], struct error *e)
{
    struct sha256 h;
    int r = sha256_init(&h, e);
    if (r < 0)
        return r;
    sha256_update(&h, data, size);
    sha256_final(&h, ret);
    return 0;
}
