// Files of pre-shared keys.
#include "base/tls/tls_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define SPACE " \t\r"

// ---- identities ---------------------------------------------------------------------------------

bool tls_identity_is_valid(const char *identity, size_t size)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._@-";
    if (size == 0 || size >= TLS_IDENTITY_SIZE)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!identity[i] || !strchr(allowed, identity[i]))
            return false;
    return true;
}

// ---- lines --------------------------------------------------------------------------------------

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int parse_hex(const char *text, size_t n, struct tls_key *k, struct error *e)
{
    if (n % 2 || n < 2 * TLS_KEY_MIN || n > 2 * TLS_KEY_MAX)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the key of %s is not %d to %d bytes in hexadecimal digits, two for each",
                         k->identity, TLS_KEY_MIN, TLS_KEY_MAX);
    for (size_t i = 0; i < n; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return error_set(e, STATUS_PARAM_INVALID,
                             "the key of %s has something else than hexadecimal digits in it",
                             k->identity);
        k->bytes[i / 2] = (uint8_t)(k->bytes[i / 2] << 4 | digit);
    }
    k->size = n / 2;
    return 0;
}

// "IDENTITY:KEY" or "IDENTITY:KEY SERVER", without spaces at its ends.
static int parse_key(const char *line, size_t n, struct tls_key *k, struct error *e)
{
    const char *colon = memchr(line, ':', n);
    size_t identity = colon ? (size_t)(colon - line) : 0;
    *k = (struct tls_key){0};
    if (!colon || !tls_identity_is_valid(line, identity))
        return error_set(e, STATUS_PARAM_INVALID,
                         "this is not IDENTITY:KEY, where an identity is 1 to %d letters, digits "
                         "and . _ @ -",
                         TLS_IDENTITY_SIZE - 1);
    memcpy(k->identity, line, identity);
    const char *key = colon + 1, *end = line + n, *space = key;
    while (space < end && !strchr(SPACE, *space))
        space++;
    int r = parse_hex(key, (size_t)(space - key), k, e);
    while (space < end && strchr(SPACE, *space))
        space++;
    size_t server = (size_t)(end - space);
    if (r == 0 && (server >= sizeof k->server || memchr(space, ' ', server)))
        r = error_set(e, STATUS_PARAM_INVALID, "what follows the key of %s is no HOST:PORT",
                      k->identity);
    if (r == 0)
        memcpy(k->server, space, server);
    return r;
}

static bool is_there(const struct tls_keys *all, const struct tls_key *k)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->all[i].identity, k->identity) == 0 &&
            strcmp(all->all[i].server, k->server) == 0)
            return true;
    return false;
}

// Not realloc(), which would leave keys behind in the heap.
static int keys_add(struct tls_keys *all, const struct tls_key *k, struct error *e)
{
    if (is_there(all, k))
        return error_set(e, STATUS_PARAM_INVALID, "identity %s is there a second time",
                         k->identity);
    if (all->n == TLS_KEYS_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "there are more than %d keys", TLS_KEYS_MAX);
    if (all->n & (all->n - 1)) { // there is room up to the next power of two
        all->all[all->n++] = *k;
        return 0;
    }
    size_t room = all->n > 0 ? 2 * all->n : 1;
    struct tls_key *more = calloc(room, sizeof *more);
    if (!more)
        return error_no_memory(e, "keys", room * sizeof *more);
    struct tls_keys old = *all;
    if (old.n > 0)
        memcpy(more, old.all, old.n * sizeof *more);
    more[old.n] = *k;
    *all = (struct tls_keys){more, old.n + 1};
    tls_keys_done(&old);
    return 0;
}

static int parse_line(const char *line, size_t n, struct tls_keys *all, struct error *e)
{
    while (n > 0 && strchr(SPACE, line[n - 1]))
        n--;
    while (n > 0 && strchr(SPACE, *line))
        line++, n--;
    if (n == 0 || *line == '#')
        return 0;
    struct tls_key k;
    int r = memchr(line, 0, n) ? error_set(e, STATUS_PARAM_INVALID, "this is no text")
                               : parse_key(line, n, &k, e);
    if (r == 0)
        r = keys_add(all, &k, e);
    OPENSSL_cleanse(&k, sizeof k);
    return r;
}

int tls_keys_parse(const char *text, size_t size, struct tls_keys *ret, struct error *e)
{
    struct tls_keys all = {0};
    unsigned number = 0;
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t n = end ? (size_t)(end - text) : size;
        number++;
        if (parse_line(text, n, &all, e) < 0) {
            tls_keys_done(&all);
            return error_prefix(e, "line %u", number);
        }
        text += n + !!end;
        size -= n + !!end;
    }
    *ret = all;
    return 0;
}

// ---- files --------------------------------------------------------------------------------------

int tls_open_secret(const char *path, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID, "%s is not a file", path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is user %u's, who could change it: give it to root or to the user "
                         "that runs this program",
                         path, (unsigned)st.st_uid);
    if (st.st_mode & 037)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s has a secret, and its mode %03o lets others read or change it: "
                         "chmod 600 it (640, for a service whose group it has)",
                         path, (unsigned)st.st_mode & 0777);
    return steal_fd(&fd);
}

int tls_keys_load(int fd, char *text, size_t *size, const char *path, struct error *e)
{
    size_t n = 0;
    while (n <= TLS_KEYS_FILE_MAX) {
        ssize_t more = read(fd, text + n, TLS_KEYS_FILE_MAX + 1 - n);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
        if (more == 0) {
            *size = n;
            return 0;
        }
        n += (size_t)more;
    }
    return error_set(e, STATUS_PARAM_INVALID, "%s is larger than %u bytes", path,
                     TLS_KEYS_FILE_MAX);
}

int tls_keys_read(const char *path, struct tls_keys *ret, struct error *e)
{
    size_t n;
    cleanup(fd_close_p) int fd = tls_open_secret(path, e);
    if (fd < 0)
        return fd;
    char *text = malloc(TLS_KEYS_FILE_MAX + 1);
    if (!text)
        return error_no_memory(e, "keys", TLS_KEYS_FILE_MAX + 1);
    int r = tls_keys_load(fd, text, &n, path, e);
    if (r == 0) {
        r = tls_keys_parse(text, n, ret, e);
        OPENSSL_cleanse(text, n);
        if (r < 0)
            error_prefix(e, "%s", path);
    }
    free(text);
    return r;
}

void tls_keys_done(struct tls_keys *k)
{
    if (k->all)
        OPENSSL_cleanse(k->all, k->n * sizeof *k->all);
    free(k->all);
    *k = (struct tls_keys){0};
}

// ---- asking -------------------------------------------------------------------------------------

const struct tls_key *tls_keys_find(const struct tls_keys *k, const char *identity, size_t size)
{
    for (size_t i = 0; i < k->n; i++)
        if (strlen(k->all[i].identity) == size && memcmp(k->all[i].identity, identity, size) == 0)
            return &k->all[i];
    return NULL;
}

const struct tls_key *tls_keys_for(const struct tls_keys *k, const char *server,
                                   const char *identity)
{
    const struct tls_key *any = NULL;
    for (size_t i = 0; i < k->n; i++) {
        const struct tls_key *at = &k->all[i];
        if (identity && strcmp(at->identity, identity) != 0)
            continue;
        if (strcmp(at->server, server) == 0)
            return at;
        if (!any && !*at->server)
            any = at;
    }
    return any;
}
