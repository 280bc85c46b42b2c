// Lists of revoked certificates. OpenSSL looks into them in each handshake; here they are read, and
// looked at once, so that what would refuse everybody is known at the start.
#include "base/tls/tls_revoked.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file/trust.h"
#include "base/log.h"
#include "base/text/text.h"
#include "base/tls/tls_private.h"

// Of the file. A handshake takes a list's hash before it knows whether its peer is a stranger; this
// many bytes are a few milliseconds, and 20,000 certificates.
#define LISTS_MAX (1 << 20)

static void crls_free_p(STACK_OF(X509_CRL) * *all)
{
    sk_X509_CRL_pop_free(*all, X509_CRL_free);
}

static FILE *open_lists(const char *path, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > LISTS_MAX) {
        error_set(e, STATUS_PARAM_INVALID,
                  "%s is no file of lists of revoked certificates: of at most %d bytes, and no "
                  "pipe or device",
                  path, LISTS_MAX);
        return NULL;
    }
    if (trust_check(path, e) < 0)
        return NULL;
    FILE *file = fdopen(fd, "re");
    if (file)
        steal_fd(&fd);
    else
        error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    return file;
}

// To the file's end; other PEM in it (certificates) is passed over, as OpenSSL's own readers do.
static int read_lists(const char *path, STACK_OF(X509_CRL) * all, struct error *e)
{
    cleanup(fclose_p) FILE *file = open_lists(path, e);
    X509_CRL *one;
    if (!file)
        return STATUS_PARAM_INVALID;
    while ((one = PEM_read_X509_CRL(file, NULL, NULL, NULL)))
        if (!sk_X509_CRL_push(all, one)) {
            X509_CRL_free(one);
            return error_no_memory(e, "lists of revoked certificates", 0);
        }
    bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (is_end && sk_X509_CRL_num(all) > 0)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "%s has no list of revoked certificates (CRL) in PEM%s", path,
                     is_end ? "" : ", or something else that cannot be read");
}

// A serial number is looked for once: OpenSSL sorts the list then, which is not for the loop.
static int prepare(X509_CRL *one, const char *path, struct error *e)
{
    X509_REVOKED *found;
    const ASN1_TIME *end = X509_CRL_get0_nextUpdate(one);
    ASN1_INTEGER *serial = ASN1_INTEGER_new();
    if (!serial)
        return error_no_memory(e, "lists of revoked certificates", 0);
    X509_CRL_get0_by_serial(one, &found, serial);
    ASN1_INTEGER_free(serial);
    if (end && X509_cmp_current_time(end) < 0)
        log_warn("%s has a list that has expired: until it is renewed no certificate counts of "
                 "the authority that made it",
                 path);
    return 0;
}

// 1: there is a list of it.
static int find_list(X509 *authority, const STACK_OF(X509_CRL) * all, const char *path,
                     struct error *e)
{
    const X509_NAME *name = X509_get_subject_name(authority);
    for (int i = 0; i < sk_X509_CRL_num(all); i++) {
        X509_CRL *one = sk_X509_CRL_value(all, i);
        if (X509_NAME_cmp(X509_CRL_get_issuer(one), name) == 0 &&
            X509_CRL_verify(one, X509_get0_pubkey(authority)) == 1)
            return 1;
    }
    char text[200];
    ERR_clear_error();
    X509_NAME_oneline(name, text, sizeof text);
    text_make_printable(text);
    return error_set(e, STATUS_PARAM_INVALID,
                     "%s has no list that %s has signed, which is trusted: none of its "
                     "certificates would count (openssl ca -gencrl makes an empty one)",
                     path, text);
}

static int check_trusted(X509_STORE *store, const STACK_OF(X509_CRL) * all, const char *path,
                         struct error *e)
{
    const STACK_OF(X509_OBJECT) *trusted = X509_STORE_get0_objects(store);
    int r = 1;
    for (int i = 0; r > 0 && i < sk_X509_OBJECT_num(trusted); i++) {
        X509 *one = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i));
        if (one && X509_check_ca(one) > 0)
            r = find_list(one, all, path, e);
    }
    return r < 0 ? r : 0;
}

int tls_revoked_use(SSL_CTX *ssl, const char *path, struct error *e)
{
    cleanup(crls_free_p) STACK_OF(X509_CRL) *all = sk_X509_CRL_new_null();
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    if (!all)
        return error_no_memory(e, "lists of revoked certificates", 0);
    int r = read_lists(path, all, e);
    if (r == 0)
        r = check_trusted(store, all, path, e);
    for (int i = 0; r == 0 && i < sk_X509_CRL_num(all); i++) {
        r = prepare(sk_X509_CRL_value(all, i), path, e);
        if (r == 0 && X509_STORE_add_crl(store, sk_X509_CRL_value(all, i)) != 1)
            r = tls_error(e, "%s", path);
    }
    if (r == 0 &&
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1)
        r = tls_error(e, "%s", path);
    return r;
}
