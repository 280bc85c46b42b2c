// Two ends that share nothing yet: TLS keeps listeners out, but not one who sits between and talks
// TLS to both. Then there are two TLS sessions, whose exported keys differ, and so do the codes
// that both ends derive from them. Six digits are enough, since a man in the middle has one guess a
// run: the nonces are committed to before they are seen.
#include "base/tls/pairing.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/tls/tls_private.h"

#define LABEL  "EXPORTER-rknnd-pairing"
#define COMMIT "rknnd pairing nonce"
#define CODES  1000000u
#define DAY    (24 * 60 * 60)

static void pkey_free_p(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void x509_free_p(X509 **cert)
{
    X509_free(*cert);
}

// TLS wants one of a server. Nobody looks at what it says, clocks that are wrong included.
static bool show_certificate(SSL_CTX *ssl)
{
    cleanup(pkey_free_p) EVP_PKEY *key = EVP_EC_gen("P-256");
    cleanup(x509_free_p) X509 *cert = X509_new();
    if (!key || !cert)
        return false;
    X509_NAME *name = X509_get_subject_name(cert);
    return X509_set_version(cert, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -DAY) &&
           X509_gmtime_adj(X509_getm_notAfter(cert), DAY) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"pairing",
                                      -1, -1, 0) == 1 &&
           X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1 &&
           X509_sign(cert, key, EVP_sha256()) > 0 && SSL_CTX_use_certificate(ssl, cert) == 1 &&
           SSL_CTX_use_PrivateKey(ssl, key) == 1;
}

int pairing_context(bool server, struct tls_context **ret, struct error *e)
{
    struct tls_context *c;
    int r = tls_context_new(server, &c, e);
    if (r < 0)
        return r;
    c->anonymous = true;
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_NONE, NULL);
    if (server && !show_certificate(c->ssl)) {
        tls_context_free(c);
        return tls_error(e, "no certificate for pairing");
    }
    *ret = c;
    return 0;
}

int pairing_random(uint8_t *ret, size_t size, struct error *e)
{
    return RAND_priv_bytes(ret, (int)size) == 1 ? 0 : tls_error(e, "no random numbers");
}

int pairing_commit(const uint8_t nonce[PAIRING_NONCE], uint8_t ret[PAIRING_NONCE], struct error *e)
{
    uint8_t said[sizeof COMMIT - 1 + PAIRING_NONCE];
    memcpy(said, COMMIT, sizeof COMMIT - 1);
    memcpy(said + sizeof COMMIT - 1, nonce, PAIRING_NONCE);
    return sha256(said, sizeof said, ret, e);
}

// Six digits of a number that is next to evenly spread over them.
static void write_code(const uint8_t bytes[8], char ret[PAIRING_CODE])
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n = n << 8 | bytes[i];
    unsigned code = (unsigned)(n % CODES);
    snprintf(ret, PAIRING_CODE, "%03u %03u", code / 1000 % 1000, code % 1000);
}

int pairing_codes(struct tls *t, const uint8_t client[PAIRING_NONCE],
                  const uint8_t board[PAIRING_NONCE], struct pairing_codes *ret, struct error *e)
{
    uint8_t exported[PAIRING_NONCE], nonces[2 * PAIRING_NONCE], mac[SHA256_SIZE];
    unsigned size = sizeof mac;
    memcpy(nonces, client, PAIRING_NONCE);
    memcpy(nonces + PAIRING_NONCE, board, PAIRING_NONCE);
    if (tls_export(t, LABEL, exported, sizeof exported) < 0 ||
        !HMAC(EVP_sha256(), exported, PAIRING_NONCE, nonces, sizeof nonces, mac, &size))
        return tls_error(e, "no code");
    write_code(mac, ret->of_board);
    write_code(mac + 8, ret->of_client);
    return 0;
}

bool pairing_code_is(const char *typed, const char code[PAIRING_CODE])
{
    while (*typed || *code) {
        typed += strspn(typed, " -\t\r\n");
        code += strspn(code, " ");
        if (*typed != *code)
            return false;
        if (*typed)
            typed++, code++;
    }
    return true;
}
