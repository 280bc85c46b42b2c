// The file is never written in place: programs may read it at any moment, and a machine may lose
// power. The new text is written beside it, gets the old one's owner and mode, is synced and
// renamed. Lines that are not about the same key stay byte by byte, comments included.
#include "base/tls/tls_keys_store.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/folder.h"

#define LINE_SIZE (TLS_IDENTITY_SIZE + 2 * TLS_KEY_MAX + TLS_SERVER_SIZE + 4)

// ---- text ---------------------------------------------------------------------------------------

static size_t write_line(const struct tls_key *k, char ret[LINE_SIZE])
{
    size_t n = (size_t)snprintf(ret, LINE_SIZE, "%s:", k->identity);
    for (size_t i = 0; i < k->size; i++)
        n += (size_t)snprintf(ret + n, LINE_SIZE - n, "%02x", k->bytes[i]);
    n += (size_t)snprintf(ret + n, LINE_SIZE - n, "%s%s\n", *k->server ? " " : "", k->server);
    return n;
}

// Whether one line is a key of the same identity and server.
static bool is_same(const char *line, size_t n, const struct tls_key *k)
{
    struct tls_keys one;
    if (tls_keys_parse(line, n, &one, NULL) < 0)
        return false;
    bool same = one.n == 1 && strcmp(one.all->identity, k->identity) == 0 &&
                strcmp(one.all->server, k->server) == 0;
    tls_keys_done(&one);
    return same;
}

int tls_keys_insert(const char *text, size_t size, const struct tls_key *k, char **ret,
                    size_t *ret_size, struct error *e)
{
    struct tls_keys all;
    int r = tls_keys_parse(text, size, &all, e);
    if (r < 0)
        return r;
    tls_keys_done(&all);
    char *to = malloc(size + LINE_SIZE);
    if (!to)
        return error_no_memory(e, "keys", size + LINE_SIZE);
    size_t n = k->size > 0 ? write_line(k, to) : 0;
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t line = end ? (size_t)(end - text) + 1 : size;
        if (!is_same(text, line, k)) {
            memcpy(to + n, text, line);
            n += line;
        }
        text += line;
        size -= line;
    }
    *ret = to;
    *ret_size = n;
    return 0;
}

// ---- files --------------------------------------------------------------------------------------

// What is there, and who may read what takes its place.
struct old_file {
    char *text; // TLS_KEYS_FILE_MAX + 1 bytes
    size_t size;
    mode_t mode;
    uid_t uid;
    gid_t gid;
};

static void old_file_done(struct old_file *o)
{
    if (o->text)
        OPENSSL_cleanse(o->text, o->size);
    free(o->text);
}

static void choose_readers(struct old_file *o, const char *group)
{
    o->mode = 0600;
    o->uid = geteuid();
    o->gid = getegid();
    const struct group *g = group && o->uid == 0 ? getgrnam(group) : NULL;
    if (g) {
        o->gid = g->gr_gid;
        o->mode = 0640;
    }
}

static int read_old(const char *path, const char *group, struct old_file *o, struct error *e)
{
    struct stat st;
    if (access(path, F_OK) < 0 && errno == ENOENT) {
        choose_readers(o, group);
        return 0;
    }
    o->text = malloc(TLS_KEYS_FILE_MAX + 1);
    if (!o->text)
        return error_no_memory(e, "keys", TLS_KEYS_FILE_MAX + 1);
    cleanup(fd_close_p) int fd = tls_open_secret(path, e);
    if (fd < 0)
        return fd;
    int r = tls_keys_load(fd, o->text, &o->size, path, e);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    o->mode = st.st_mode & 0777;
    o->uid = st.st_uid;
    o->gid = st.st_gid;
    return 0;
}

static int write_whole(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        text += n;
        size -= (size_t)n;
    }
    return 0;
}

// The file's name belongs to the new text when that is on the disk.
static int replace(const char *path, const struct old_file *o, const char *text, size_t size,
                   struct error *e)
{
    char beside[4200];
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    cleanup(fd_close_p) int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot write beside %s", path);
    int r = write_whole(fd, text, size);
    if (r == 0 && fchown(fd, o->uid == geteuid() ? (uid_t)-1 : o->uid, o->gid) < 0)
        r = -errno;
    if (r == 0 && (fchmod(fd, o->mode) < 0 || fsync(fd) < 0 || rename(beside, path) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    unlink(beside);
    return error_set_errno(e, STATUS_FAIL, -r, "%s", path);
}

// One at a time: two that read the same text would lose a key. The folder stays where the file is
// replaced, so it is what is locked.
static int lock_folder(const char *path, struct error *e)
{
    int r = folder_make_above(path, geteuid() == 0 ? 0755 : 0700, e);
    if (r < 0)
        return r;
    int fd = folder_open_of(path, e);
    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int why = errno;
    fd_close(fd);
    return error_set(e, STATUS_FAIL, "the folder of %s: %s", path,
                     why == EWOULDBLOCK ? "somebody else is changing it" : strerror(why));
}

int tls_keys_store(const char *path, const char *group, const struct tls_key *k, struct error *e)
{
    cleanup(old_file_done) struct old_file old = {0};
    cleanup(free_p) char *real = realpath(path, NULL);
    char *text;
    size_t size;
    if (real)
        path = real;
    if (strlen(path) >= 4096)
        return error_set(e, STATUS_PARAM_INVALID, "the path is too long");
    cleanup(fd_close_p) int lock = lock_folder(path, e);
    if (lock < 0)
        return lock;
    int r = read_old(path, group, &old, e);
    if (r < 0)
        return r;
    r = tls_keys_insert(old.text ? old.text : "", old.size, k, &text, &size, e);
    if (r < 0)
        return error_prefix(e, "%s", path);
    r = replace(path, &old, text, size, e);
    OPENSSL_cleanse(text, size);
    free(text);
    return r;
}
