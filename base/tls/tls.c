// TLS sessions of OpenSSL over buffers of ours:
//
//     SSL ◄── bio_read() ◄── in:  what has arrived, IN_SIZE at a time
//     SSL ──► bio_write() ─► out: sealed records that have not gone yet
//
// A few records are sealed at once, so that the stream takes them together. They are reported as
// sent when the last of them has gone: until then their plain bytes are the caller's, who offers
// them again, and `sealed` says how many of these are in `out` already.
#include "base/tls/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/text/text.h"
#include "base/tls/certificate_message.h"
#include "base/tls/tls_private.h"

#define RECORD     16384u               // plain bytes at most (RFC 8446, 5.1)
#define SEAL       (RECORD + 256u + 5u) // what becomes of them at most (5.2)
#define IN_SIZE    (8 * SEAL)
#define OUT_SIZE   (8 * SEAL)
#define FILLS      4u     // reads of the stream in one call that receives
#define OUT_OTHER  16384u // of a handshake and alerts, at most
#define GATHERED   4096u  // smaller pieces than this are put into one record
#define RECORDS    256    // that are opened in one call: small ones cost as much as large ones
#define CHANGES    16u    // of keys, and other messages of TLS, that a session may bring at first
#define CHANGE_PER (1u << 20) // and one more for so many plain bytes

struct tls {
    struct tls_context *context;
    SSL *ssl;
    struct tls_io io;
    bool established, ended, failed;
    uint8_t first[4]; // bytes of the stream
    bool has_first;
    int io_error;         // errno of the stream, when it broke
    unsigned fills;       // reads of the stream that are left in this call
    uint64_t n_changes;   // messages of TLS's own since the handshake
    uint64_t n_received;  // plain bytes
    size_t sealed;        // plain bytes whose records are in `out`, or have gone, unreported
    size_t in_at, in_end; // in `in`
    size_t out_at, out_end;
    char identity[TLS_IDENTITY_SIZE];
    char key[TLS_IDENTITY_SIZE]; // that a client offers, for words
    char why[360];
    uint8_t in[IN_SIZE];
    uint8_t out[OUT_SIZE + OUT_OTHER];
    uint8_t gather[RECORD];
};

// ---- the stream ---------------------------------------------------------------------------------

static void tls_fill(struct tls *t)
{
    if (t->fills == 0 || t->ended || t->io_error)
        return;
    t->fills--;
    ssize_t n = t->io.receive(t->io.owner, t->in, sizeof t->in);
    t->in_at = t->in_end = 0;
    if (n > 0) {
        t->in_end = (size_t)n;
        if (!t->has_first && t->in_end >= sizeof t->first)
            memcpy(t->first, t->in, sizeof t->first);
        t->has_first = true;
    } else if (n == 0)
        t->ended = true;
    else if (n != -EAGAIN && n != -EWOULDBLOCK)
        t->io_error = (int)-n;
}

// A change of keys costs its sender 27 bytes, and the reader a hundred times what they would
// otherwise. Nobody changes keys more often than every few gigabytes.
static bool changes_too_much(const struct tls *t)
{
    return t->n_changes > CHANGES + t->n_received / CHANGE_PER;
}

static int bio_read(BIO *b, char *to, int size)
{
    struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (changes_too_much(t))
        return -1;
    if (t->in_at == t->in_end)
        tls_fill(t);
    size_t n = size_min(t->in_end - t->in_at, (size_t)size);
    if (n > 0) {
        memcpy(to, t->in + t->in_at, n);
        t->in_at += n;
        return (int)n;
    }
    if (t->ended)
        return 0;
    if (!t->io_error)
        BIO_set_retry_read(b);
    return -1;
}

// tls_send() has made sure that what it seals has room; the rest is of handshakes and alerts.
static int bio_write(BIO *b, const char *from, int size)
{
    struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if ((size_t)size > sizeof t->out - t->out_end) {
        BIO_set_retry_write(b);
        return -1;
    }
    memcpy(t->out + t->out_end, from, (size_t)size);
    t->out_end += (size_t)size;
    return size;
}

static long bio_control(BIO *b, int what, long n, void *p)
{
    const struct tls *t = BIO_get_data(b);
    (void)n, (void)p;
    return what == BIO_CTRL_FLUSH ? 1 : what == BIO_CTRL_EOF ? t->ended : 0;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rknnd");
    if (bio_method) {
        BIO_meth_set_read(bio_method, bio_read);
        BIO_meth_set_write(bio_method, bio_write);
        BIO_meth_set_ctrl(bio_method, bio_control);
    }
}

// 0: all has gone. -EAGAIN, or what broke.
static int tls_flush(struct tls *t)
{
    while (t->out_at < t->out_end) {
        ssize_t n = t->io.send(t->io.owner, t->out + t->out_at, t->out_end - t->out_at);
        if (n < 0)
            return (int)n;
        t->out_at += (size_t)n;
    }
    t->out_at = t->out_end = 0;
    return 0;
}

// ---- words --------------------------------------------------------------------------------------

static void say(struct tls *t, const char *what, const char *advice)
{
    if (!*t->why)
        snprintf(t->why, sizeof t->why, "%s%s%s", what, *advice ? "; " : "", advice);
}

// Why the other's certificate does not count.
static void explain_certificate(struct tls *t)
{
    long r = SSL_get_verify_result(t->ssl);
    char what[200];
    const char *whose = SSL_is_server(t->ssl) ? "client" : "server";
    snprintf(what, sizeof what, "the %s's certificate does not count: %s", whose,
             X509_verify_cert_error_string(r));
    if (r == X509_V_ERR_CERT_NOT_YET_VALID)
        say(t, what, "is the clock of this machine right (date)?");
    else if (r == X509_V_ERR_CERT_HAS_EXPIRED)
        say(t, what, "renew it; or is the clock of this machine wrong (date)?");
    else if (r == X509_V_ERR_HOSTNAME_MISMATCH || r == X509_V_ERR_IP_ADDRESS_MISMATCH)
        say(t, what, "use a name that it is for");
    else if (r == X509_V_ERR_CERT_REVOKED)
        say(t, what, "the list of revoked certificates has it");
    else if (r == X509_V_ERR_CRL_HAS_EXPIRED || r == X509_V_ERR_CRL_NOT_YET_VALID)
        say(t, what, "renew the list of revoked certificates; or is this machine's clock wrong?");
    else if (r == X509_V_ERR_UNABLE_TO_GET_CRL)
        say(t, what, "each authority up to the one that is trusted needs a list");
    else if (SSL_is_server(t->ssl))
        say(t, what, "tls-ca names the certificates that this server trusts");
    else if (*t->key)
        say(t,
            "the server does not know our key, and shows a certificate that we have no reason "
            "to trust",
            "is our key in its tls-psk-file? RKNND_TLS_CA names certificates to trust");
    else
        say(t, what, "RKNND_TLS_CA names the certificates to trust");
}

// What the other end says by an alert (RFC 8446, 6.2).
static const struct {
    int alert;
    const char *what, *advice;
} alerts[] = {
    {SSL_AD_HANDSHAKE_FAILURE, "the server takes neither our key nor our lack of one",
     "it does not know the identity (put our key into its tls-psk-file), or wants a certificate"},
    {SSL_AD_UNKNOWN_PSK_IDENTITY, "the server does not know our key's identity",
     "put our key into its tls-psk-file"},
    {SSL_AD_ILLEGAL_PARAMETER, "the server has another key for this identity",
     "compare ours with its tls-psk-file"},
    {SSL_AD_DECRYPT_ERROR, "the server has another key for this identity",
     "compare ours with its tls-psk-file"},
    {TLS13_AD_CERTIFICATE_REQUIRED, "the server wants a certificate or a key, and there is none",
     "set RKNND_TLS_CERT and RKNND_TLS_KEY, or RKNND_TLS_PSK_FILE"},
    {SSL_AD_UNKNOWN_CA, "the server has no reason to trust our certificate",
     "its tls-ca has to name who signed it"},
    {SSL_AD_CERTIFICATE_EXPIRED, "the server says that our certificate has expired",
     "renew it; or is the server's clock wrong?"},
    {SSL_AD_CERTIFICATE_REVOKED, "the server says that our certificate is revoked",
     "it needs another one from who has signed it"},
    {SSL_AD_BAD_CERTIFICATE, "the server does not take our certificate",
     "is the server's clock right?"},
    {SSL_AD_PROTOCOL_VERSION, "the other end does not speak TLS 1.3", ""},
    {SSL_AD_ACCESS_DENIED, "the server does not take this identity", ""},
};

static bool explain_alert(struct tls *t, int reason)
{
    for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
        if (reason == SSL_AD_REASON_OFFSET + alerts[i].alert && !SSL_is_server(t->ssl)) {
            say(t, alerts[i].what, alerts[i].advice);
            return true;
        }
    return false;
}

static bool is_no_tls(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
           reason == SSL_R_BAD_RECORD_TYPE || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_RECORD_LENGTH_MISMATCH || reason == SSL_R_UNEXPECTED_MESSAGE;
}

static void explain_reason(struct tls *t, unsigned long code)
{
    int reason = ERR_GET_REASON(code);
    const char *words = ERR_reason_error_string(code);
    bool server = SSL_is_server(t->ssl);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        explain_certificate(t);
    else if (explain_alert(t, reason))
        return;
    else if (!t->established && is_no_tls(reason))
        say(t, "the other end does not speak TLS",
            server ? "" : "is it the port of a tcp: server?");
    else if (server && reason == SSL_R_BINDER_DOES_NOT_VERIFY)
        say(t, "the client has another key for this identity", "");
    else if (server && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        say(t, "the client has neither a key nor a certificate", "");
    else if (server && reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)
        say(t, "the client has no key that this server knows", "");
    else if (server && reason == SSL_R_CALLBACK_FAILED)
        say(t, "the client offers more than any client can do", "");
    else if (server && reason == SSL_R_UNSUPPORTED_PROTOCOL)
        say(t, "the client does not speak TLS 1.3", "");
    else
        say(t, words ? words : "TLS failed", "");
}

// The stream's own failures come first, and OpenSSL's words for them are none.
static int tls_fail(struct tls *t, int why)
{
    unsigned long code = ERR_peek_last_error();
    ERR_clear_error();
    t->failed = true;
    if (t->io_error) {
        say(t, strerror(t->io_error), "");
        return -t->io_error;
    }
    if (changes_too_much(t)) {
        say(t, "the other end changes its keys without end", "");
        return -EPROTO;
    }
    if (t->ended && t->in_at == t->in_end &&
        (!code || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
        say(t,
            t->established ? "the connection was cut off"
                           : "the other end closed the connection instead of speaking TLS",
            t->established || SSL_is_server(t->ssl) ? "" : "is it the port of a tcp: server?");
        return -ECONNRESET;
    }
    if (code)
        explain_reason(t, code);
    else
        say(t, strerror(why), "");
    text_make_printable(t->why);
    return -why;
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

// ---- the handshake ------------------------------------------------------------------------------

static bool copy_name(struct tls *t, const ASN1_STRING *name)
{
    const char *text = name ? (const char *)ASN1_STRING_get0_data(name) : "";
    int size = name ? ASN1_STRING_length(name) : 0;
    if (size <= 0 || !tls_identity_is_valid(text, (size_t)size))
        return false;
    memcpy(t->identity, text, (size_t)size);
    t->identity[size] = 0;
    return true;
}

// The common name, else the first DNS name among the others.
static bool name_of_certificate(struct tls *t, X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0)
        return copy_name(t, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
        found = n->type == GEN_DNS && copy_name(t, n->d.dNSName);
    }
    GENERAL_NAMES_free(names);
    return found;
}

// An identity that no key came with is forgotten: a certificate may have been used instead.
static int identify(struct tls *t)
{
    struct tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(t->ssl));
    if (!c->server || c->anonymous || SSL_session_reused(t->ssl))
        return 0;
    *t->identity = 0;
    X509 *cert = SSL_get0_peer_certificate(t->ssl);
    if (cert && name_of_certificate(t, cert))
        return 0;
    say(t,
        "the client's certificate has no name that could be an identity (letters, digits and "
        ". _ @ -, at most 27)",
        "");
    t->failed = true;
    return -EACCES;
}

// Of the results of OpenSSL's calls.
static int tls_result(struct tls *t, int r)
{
    switch (SSL_get_error(t->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        if (t->io_error)
            return tls_fail(t, t->io_error);
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        return tls_fail(t, EPROTO);
    }
}

int tls_handshake(struct tls *t)
{
    if (t->failed)
        return -EPROTO;
    ERR_clear_error();
    t->fills = 2;
    int r = SSL_do_handshake(t->ssl);
    r = r == 1 ? 0 : tls_result(t, r);
    int sent = tls_flush(t); // also the alert of one that failed
    if (r < 0)
        return r;
    if (!SSL_is_init_finished(t->ssl)) // the other end has closed
        return tls_fail(t, ECONNRESET);
    if (sent < 0 && sent != -EAGAIN) {
        t->io_error = -sent;
        return tls_fail(t, -sent);
    }
    if (sent < 0)
        return sent; // the next call is for the rest of it
    r = t->established ? 0 : identify(t);
    t->established = r == 0;
    return r;
}

bool tls_wants_send(const struct tls *t)
{
    return t->out_at < t->out_end;
}

// ---- bytes --------------------------------------------------------------------------------------

// Where the bytes of a message are that have not been sealed.
struct cursor {
    const struct iovec *iov;
    int n;
    size_t at; // in the first
};

static void cursor_skip(struct cursor *c, size_t n)
{
    while (c->n > 0 && n >= c->iov->iov_len - c->at) {
        n -= c->iov->iov_len - c->at;
        c->iov++;
        c->n--;
        c->at = 0;
    }
    c->at += n;
}

// The next record's bytes: where they are, or, if they are in small pieces, gathered.
static size_t cursor_next(const struct cursor *c, struct tls *t, const uint8_t **ret)
{
    *ret = (const uint8_t *)c->iov->iov_base + c->at;
    size_t n = c->iov->iov_len - c->at;
    if (n >= GATHERED || c->n == 1)
        return size_min(n, RECORD);
    struct cursor next = *c;
    size_t have = 0;
    while (next.n > 0 && have < RECORD) {
        n = size_min(next.iov->iov_len - next.at, RECORD - have);
        memcpy(t->gather + have, (const uint8_t *)next.iov->iov_base + next.at, n);
        have += n;
        cursor_skip(&next, n);
    }
    *ret = t->gather;
    return have;
}

// Seals what has room. Negative: it failed.
static int tls_seal(struct tls *t, struct cursor *c)
{
    const uint8_t *data;
    while (c->n > 0 && OUT_SIZE >= t->out_end + SEAL) {
        size_t n = cursor_next(c, t, &data), done;
        if (n == 0) {
            cursor_skip(c, 0);
            continue;
        }
        ERR_clear_error();
        int r = SSL_write_ex(t->ssl, data, n, &done);
        if (r != 1) {
            r = tls_result(t, r);
            return r == 0 ? -EPIPE : r;
        }
        t->sealed += done;
        cursor_skip(c, done);
    }
    return 0;
}

ssize_t tls_send(struct tls *t, const struct iovec *iov, int n_iov)
{
    if (t->failed || !t->established)
        return -EPIPE;
    struct cursor c = {iov, n_iov, 0};
    cursor_skip(&c, t->sealed);
    int r = tls_flush(t);
    if (r == 0 && (r = tls_seal(t, &c)) == 0)
        r = tls_flush(t);
    if (r < 0) {
        if (r != -EAGAIN && !t->failed) {
            t->io_error = -r;
            tls_fail(t, -r);
        }
        return r;
    }
    size_t sent = t->sealed;
    t->sealed = 0;
    return (ssize_t)sent;
}

// A few reads of the stream, so that a call's work is bounded; what is left of the stream brings
// its own event.
ssize_t tls_receive(struct tls *t, void *buffer, size_t size)
{
    size_t have = 0;
    t->fills = FILLS;
    if (!t->established)
        return -EPIPE;
    for (int i = 0; have < size && !t->failed && (i < RECORDS || have == 0); i++) {
        size_t n = 0;
        ERR_clear_error();
        int r = SSL_read_ex(t->ssl, (uint8_t *)buffer + have, size - have, &n);
        if (r == 1) {
            have += n;
            t->n_received += n;
            continue;
        }
        r = tls_result(t, r);
        if (t->sealed == 0)
            tls_flush(t); // an alert, or the answer to a change of keys
        if (have > 0)
            break; // what is wrong is said again
        return r;
    }
    return t->failed && have == 0 ? -EPROTO : (ssize_t)have;
}

bool tls_has_input(const struct tls *t)
{
    return t->established && (t->in_at < t->in_end || t->failed || SSL_pending(t->ssl) > 0);
}

void tls_finish(struct tls *t)
{
    if (!t->established || t->failed || t->out_end > 0)
        return;
    ERR_clear_error();
    SSL_shutdown(t->ssl);
    ERR_clear_error();
    tls_flush(t);
}

int tls_export(struct tls *t, const char *label, uint8_t *ret, size_t size)
{
    ERR_clear_error();
    int r = t->established
                ? SSL_export_keying_material(t->ssl, ret, size, label, strlen(label), NULL, 0, 0)
                : 0;
    return r == 1 ? 0 : -EPROTO;
}

// ---- life ---------------------------------------------------------------------------------------

// An address is a name of its own kind in certificates. SNI has host names alone.
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

// OpenSSL cannot be told to refuse a message, but it calls us before it reads one. A Certificate
// message of a handshake has an empty context behind its head: one that has another is refused
// before anything else in it is looked at.
static void look_at_certificates(struct tls *t, const void *data, size_t size)
{
    uint8_t *message = (uint8_t *)(uintptr_t)data;
    if (size <= SSL3_HM_HEADER_LENGTH || message[0] != SSL3_MT_CERTIFICATE)
        return;
    const char *fault = certificate_message_fault(message, size);
    if (!fault)
        return;
    say(t, fault, "");
    message[SSL3_HM_HEADER_LENGTH] = 0xff;
}

static void on_message(int written, int version, int type, const void *data, size_t size, SSL *ssl,
                       void *owner)
{
    struct tls *t = owner;
    (void)version, (void)ssl;
    if (!written && type == SSL3_RT_HANDSHAKE)
        look_at_certificates(t, data, size);
    t->n_changes += t->established && !written && type == SSL3_RT_HANDSHAKE;
}

static bool attach(struct tls *t)
{
    BIO *b = BIO_new(bio_method);
    if (!b)
        return false;
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b);
    if (SSL_set_app_data(t->ssl, t->identity) != 1)
        return false;
    SSL_set_msg_callback(t->ssl, on_message);
    SSL_set_msg_callback_arg(t->ssl, t);
    return true;
}

static void tls_free_p(struct tls **t)
{
    tls_free(*t);
}

int tls_new(struct tls_context *c, const struct tls_io *io, const char *host, struct tls **ret,
            struct error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bio_method);
    // Pages of its own: what is not touched costs nothing, and after a crowd they go back to the
    // system, of which malloc() would keep most.
    void *pages =
        mmap(NULL, sizeof(struct tls), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return error_no_memory(e, "a TLS session", sizeof(struct tls));
    cleanup(tls_free_p) struct tls *t = pages;
    t->io = *io;
    t->context = c;
    atomic_fetch_add(&c->refs, 1);
    t->ssl = SSL_new(c->ssl);
    if (!t->ssl || !bio_method || !attach(t) || (host && !expect_host(t->ssl, host)))
        return tls_error(e, "no TLS session");
    snprintf(t->key, sizeof t->key, "%s", c->key.identity);
    if (c->server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    *ret = steal_ptr(t);
    return 0;
}

// Plain bytes of the program may be in `gather`; what is in the other two is sealed.
void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    tls_context_free(t->context);
    munmap(t, sizeof *t);
}

bool tls_began_with(const struct tls *t, const void *bytes, size_t size)
{
    return size <= sizeof t->first && memcmp(t->first, bytes, size) == 0;
}

const char *tls_identity(const struct tls *t)
{
    return t->identity;
}

const char *tls_cipher(const struct tls *t)
{
    return SSL_get_cipher(t->ssl);
}
