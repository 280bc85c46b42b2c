// Contexts of OpenSSL.
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file/trust.h"
#include "base/tls/certificate_message.h"
#include "base/tls/tls_context.h"
#include "base/tls/tls_private.h"
#include "base/tls/tls_revoked.h"

// Suites of one hash, since keys of files are used with SHA-256; the third needs certificates.
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"
#define GROUPS "X25519:P-256"

#define OFFER_MAX 4096 // bytes of each list of what a client can do; a large key share has 1,200

#define CERTIFICATES_MAX (16 << 20) // bytes of a file; all that a system trusts are 0.3 MB

static const unsigned char psk_suite[] = {0x13, 0x01}; // TLS_AES_128_GCM_SHA256

// ---- words --------------------------------------------------------------------------------------

// What OpenSSL says last in this thread; forgets it.
static const char *last_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    ERR_clear_error();
    return code ? ERR_reason_error_string(code) : NULL;
}

int tls_error(struct error *e, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *why = last_reason();
    return error_set(e, STATUS_FAIL, "%s: %s", text, why ? why : "OpenSSL does not say why");
}

// ---- pre-shared keys ----------------------------------------------------------------------------

static void look_at(const char *path, struct tls_file_stamp *ret)
{
    struct stat st;
    *ret = (struct tls_file_stamp){0};
    if (stat(path, &st) == 0)
        *ret = (struct tls_file_stamp){(uint64_t)st.st_dev, (uint64_t)st.st_ino,
                                       (uint64_t)st.st_size, st.st_mtim, st.st_ctim};
}

// A server's. It is looked at before it is read: a change in between is then seen the next time. A
// file of no bytes is what is there while an editor writes it, and behind a full disk: taken for
// one without keys it would lock everybody out.
static int read_keys(struct tls_context *c, struct tls_keys *ret, struct error *e)
{
    int r = tls_keys_read(c->keys_path, ret, e);
    if (r < 0 || c->keys_stamp.size > 0)
        return r;
    tls_keys_done(ret);
    return error_set(e, STATUS_PARAM_INVALID,
                     "%s is empty: where nobody is to have a key, leave a comment (#) in it",
                     c->keys_path);
}

static int use_keys(struct tls_context *c, const char *path, struct error *e)
{
    look_at(path, &c->keys_stamp);
    c->keys_path = strdup(path);
    return c->keys_path ? read_keys(c, &c->keys, e) : error_no_memory(e, "a path", 0);
}

static bool is_same_file(const struct tls_file_stamp *a, const struct tls_file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

int tls_context_refresh(struct tls_context *c, struct error *e)
{
    struct tls_file_stamp now;
    struct tls_keys keys;
    if (!c->keys_path)
        return 0;
    look_at(c->keys_path, &now);
    if (is_same_file(&now, &c->keys_stamp))
        return 0;
    c->keys_stamp = now;
    int r = read_keys(c, &keys, e);
    if (r < 0)
        return r;
    tls_keys_done(&c->keys);
    c->keys = keys;
    return 1;
}

// RFC 8446 calls these external keys; OpenSSL takes them as sessions of a suite.
static SSL_SESSION *make_session(SSL *ssl, const struct tls_key *k)
{
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, psk_suite);
    SSL_SESSION *s = SSL_SESSION_new();
    if (s && suite && SSL_SESSION_set1_master_key(s, k->bytes, k->size) &&
        SSL_SESSION_set_cipher(s, suite) && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

// Of a server, for each identity that the client offers. OpenSSL then checks that the client has
// the key. 1 without a session: the identity is not known.
static int find_session(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **ret)
{
    struct tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const struct tls_key *k = tls_keys_find(&c->keys, (const char *)identity, size);
    *ret = k ? make_session(ssl, k) : NULL;
    if (*ret)
        memcpy(SSL_get_app_data(ssl), k->identity, sizeof k->identity);
    return !k || *ret;
}

// Of a client. `hash`: what a server has asked for that wants another suite than ours; there is
// nothing else to offer.
static int use_session(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *size,
                       SSL_SESSION **ret)
{
    const struct tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    *ret = NULL;
    if (c->key.size == 0 || (hash && !EVP_MD_is_a(hash, "SHA256")))
        return 1;
    *ret = make_session(ssl, &c->key);
    *identity = (const unsigned char *)c->key.identity;
    *size = strlen(c->key.identity);
    return *ret ? 1 : 0;
}

// ---- the first message --------------------------------------------------------------------------

// OpenSSL compares each key share with each group, and looks for each identity among our keys: of
// as many as a message has room for, that is a tenth of a second. Nobody offers more than a few.
static int on_client_hello(SSL *ssl, int *ret_alert, void *unused)
{
    static const unsigned lists[] = {TLSEXT_TYPE_supported_groups, TLSEXT_TYPE_signature_algorithms,
                                     TLSEXT_TYPE_psk, TLSEXT_TYPE_key_share};
    const unsigned char *list;
    size_t size;
    (void)unused;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (SSL_client_hello_get0_ext(ssl, lists[i], &list, &size) == 1 && size > OFFER_MAX) {
            *ret_alert = SSL_AD_HANDSHAKE_FAILURE;
            return SSL_CLIENT_HELLO_ERROR;
        }
    return SSL_CLIENT_HELLO_SUCCESS;
}

// ---- certificates -------------------------------------------------------------------------------

static void pkey_free_p(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

// A key with a passphrase is refused: nobody is there to be asked.
static int no_passphrase(char *to, int size, int writing, void *owner)
{
    (void)to, (void)size, (void)writing, (void)owner;
    return -1;
}

static int use_key(struct tls_context *c, const char *path, struct error *e)
{
    cleanup(fd_close_p) int fd = tls_open_secret(path, e);
    if (fd < 0)
        return fd;
    cleanup(fclose_p) FILE *file = fdopen(fd, "re");
    if (!file)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    steal_fd(&fd);
    cleanup(pkey_free_p) EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, no_passphrase, NULL);
    if (!key)
        return tls_error(e, "%s is not a key in PEM without a passphrase", path);
    if (SSL_CTX_use_PrivateKey(c->ssl, key) != 1 || SSL_CTX_check_private_key(c->ssl) != 1)
        return tls_error(e, "%s is not the certificate's key", path);
    return 0;
}

// OpenSSL reads on as long as a file goes on, and opens a pipe as if somebody wrote to it.
static int check_certificates(const char *path, struct error *e)
{
    struct stat st;
    if (!path)
        return 0;
    if (stat(path, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > CERTIFICATES_MAX)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is no file of certificates: of at most %d bytes, and no pipe or "
                         "device",
                         path, CERTIFICATES_MAX);
    return trust_check(path, e);
}

// The certificates between ours and one that is trusted, where the file has ours alone. OpenSSL
// would look for them, and verify them, in each handshake: a fifth of what that takes.
static void keep_chain(SSL_CTX *ssl)
{
    STACK_OF(X509) *chain = NULL;
    SSL_CTX_get0_chain_certs(ssl, &chain);
    if (!chain)
        SSL_CTX_build_cert_chain(ssl, SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR |
                                          SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR);
    SSL_CTX_set_mode(ssl, SSL_MODE_NO_AUTO_CHAIN);
}

static int use_certificates(struct tls_context *c, const struct tls_files *f, struct error *e)
{
    int r = check_certificates(f->cert, e);
    if (r == 0)
        r = check_certificates(f->ca, e);
    if (r < 0)
        return r;
    if (!f->cert != !f->key)
        return error_set(e, STATUS_PARAM_INVALID, "a certificate and its key belong together: %s",
                         f->cert ? "the key is missing" : "the certificate is missing");
    if (f->crl && !f->ca)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s: revoked certificates without those that are trusted (tls-ca, or "
                         "RKNND_TLS_CA in a program)",
                         f->crl);
    if (f->cert && SSL_CTX_use_certificate_chain_file(c->ssl, f->cert) != 1)
        return tls_error(e, "%s cannot be used as a certificate in PEM", f->cert);
    if (f->ca && SSL_CTX_load_verify_file(c->ssl, f->ca) != 1)
        return tls_error(e, "%s has no certificates in PEM to trust", f->ca);
    c->trusts = f->ca;
    if (f->cert)
        keep_chain(c->ssl); // before lists are there: it would want one for us
    r = f->key ? use_key(c, f->key, e) : 0;
    return r == 0 && f->crl ? tls_revoked_use(c->ssl, f->crl, e) : r;
}

// ---- contexts -----------------------------------------------------------------------------------

static void tls_context_free_p(struct tls_context **c)
{
    tls_context_free(*c);
}

// Records of any number of bytes are read as they come; a session is for one connection, so nothing
// is kept of it.
static bool set_up(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 0);
    SSL_CTX_set_max_early_data(ssl, 0);
    SSL_CTX_set_recv_max_early_data(ssl, 0);
    SSL_CTX_set_max_cert_list(ssl, CERTIFICATES_SENT_BYTES);
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION // what is compressed is not seen before it is read
    SSL_CTX_set_options(ssl, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ssl, SUITES) == 1 && SSL_CTX_set1_groups_list(ssl, GROUPS) == 1;
}

int tls_context_new(bool server, struct tls_context **ret, struct error *e)
{
    cleanup(tls_context_free_p) struct tls_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "TLS", sizeof *c);
    c->refs = 1;
    c->server = server;
    c->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!c->ssl || !set_up(c->ssl))
        return tls_error(e, "no TLS 1.3");
    if (server) { // OpenSSL takes keys for sessions, and wants to know whose they are
        SSL_CTX_set_session_id_context(c->ssl, (const unsigned char *)"rknnd", 5);
        SSL_CTX_set_client_hello_cb(c->ssl, on_client_hello, NULL);
    }
    if (SSL_CTX_set_app_data(c->ssl, c) != 1)
        return tls_error(e, "no TLS 1.3");
    *ret = steal_ptr(c);
    return 0;
}

int tls_server_context(const struct tls_files *f, struct tls_context **ret, struct error *e)
{
    cleanup(tls_context_free_p) struct tls_context *c = NULL;
    if (!f->psk && !f->cert)
        return error_set(e, STATUS_PARAM_INVALID,
                         "TLS needs pre-shared keys (tls-psk-file), or a certificate (tls-cert, "
                         "tls-key and tls-ca)");
    if (f->cert && !f->ca)
        return error_set(e, STATUS_PARAM_INVALID,
                         "tls-cert without tls-ca: nobody could tell who the clients are");
    int r = tls_context_new(true, &c, e);
    if (r == 0)
        r = use_certificates(c, f, e);
    if (r == 0 && f->psk)
        r = use_keys(c, f->psk, e);
    if (r < 0)
        return r;
    if (f->psk)
        SSL_CTX_set_psk_find_session_callback(c->ssl, find_session);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    *ret = steal_ptr(c);
    return 0;
}

// A key that is meant for other servers, or for another identity, is not offered.
static int choose_key(struct tls_context *c, const struct tls_files *f, const char *server,
                      const char *identity, struct error *e)
{
    struct tls_keys keys;
    int r = tls_keys_read(f->psk, &keys, e);
    if (r < 0)
        return r;
    const struct tls_key *k = tls_keys_for(&keys, server, identity);
    if (k)
        c->key = *k;
    else if (!f->ca)
        r = error_set(
            e, STATUS_PARAM_INVALID,
            "%s has no key for this server%s%s: rknnctl pair HOST makes one, or add a line "
            "IDENTITY:KEY (rknnd-client(7))",
            f->psk, identity ? " and identity " : "", identity ? identity : "");
    tls_keys_done(&keys);
    return r;
}

int tls_client_context(const struct tls_files *f, const char *server, const char *identity,
                       struct tls_context **ret, struct error *e)
{
    cleanup(tls_context_free_p) struct tls_context *c = NULL;
    if (!f->psk && !f->ca)
        return error_set(e, STATUS_PARAM_INVALID,
                         "there is no key for TLS: rknnctl pair HOST makes one; RKNND_TLS_PSK_FILE "
                         "names another file of keys, RKNND_TLS_CA certificates to trust");
    int r = tls_context_new(false, &c, e);
    if (r == 0)
        r = use_certificates(c, f, e);
    if (r == 0 && f->psk)
        r = choose_key(c, f, server, identity, e);
    if (r < 0)
        return r;
    SSL_CTX_set_psk_use_session_callback(c->ssl, use_session);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
    *ret = steal_ptr(c);
    return 0;
}

void tls_context_free(struct tls_context *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    SSL_CTX_free(c->ssl);
    tls_keys_done(&c->keys);
    free(c->keys_path);
    OPENSSL_cleanse(&c->key, sizeof c->key);
    free(c);
}
