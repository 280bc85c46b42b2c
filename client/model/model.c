// Models to be opened: where their bytes come from, and their hash, by which servers know them.
// Files are read and not mapped: one that shrinks meanwhile is then an error and not a SIGBUS.
#include "client/model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"

#define READ_SIZE (256u << 10)
#define N_KNOWN   16

// ---- hashes of files that have been seen -------------------------------------------------------

// What tells that a file is still the same, and its hash. The last N_KNOWN are kept, so that
// opening a large model again does not read all of it; ctime is among them because a program can
// set mtime.
struct known {
    dev_t device;
    ino_t inode;
    off_t file_size;
    struct timespec modified, changed;
    uint64_t offset, size;
    uint8_t sha256[MODEL_SHA256_SIZE];
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known known[N_KNOWN];
static unsigned next_known;

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

// Compares all that identifies a file's content, and the part of it that is opened.
static bool same_file(const struct known *a, const struct known *b)
{
    return a->device == b->device && a->inode == b->inode && a->file_size == b->file_size &&
           same_time(&a->modified, &b->modified) && same_time(&a->changed, &b->changed) &&
           a->offset == b->offset && a->size == b->size;
}

// Looks up *k by its file and fills in its hash.
static bool model_recall(struct known *k)
{
    bool found = false;
    pthread_mutex_lock(&known_lock);
    for (size_t i = 0; i < N_KNOWN && !found; i++) {
        found = known[i].size && same_file(&known[i], k);
        if (found)
            *k = known[i];
    }
    pthread_mutex_unlock(&known_lock);
    return found;
}

// Replaces the oldest entry.
static void model_remember(const struct known *k)
{
    pthread_mutex_lock(&known_lock);
    known[next_known++ % N_KNOWN] = *k;
    pthread_mutex_unlock(&known_lock);
}

void model_before_fork(void)
{
    pthread_mutex_lock(&known_lock);
}

void model_after_fork(bool child)
{
    (void)child;
    pthread_mutex_unlock(&known_lock);
}

// ---- models ------------------------------------------------------------------------------------

// Reads exactly `size` bytes, or gives a pointer into memory.
const uint8_t *model_read(const struct model *m, uint64_t at, size_t size, uint8_t *buffer,
                          struct error *e)
{
    if (m->data)
        return m->data + at;
    if (m->bundle)
        return bundle_read(m->bundle, at, size, buffer, e) < 0 ? NULL : buffer;
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(m->fd, buffer + done, size - done, (off_t)(m->offset + at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            error_set_errno(e, STATUS_MODEL_INVALID, errno, "model %s cannot be read", m->name);
        else if (n == 0)
            error_set(e, STATUS_MODEL_INVALID, "model %s became shorter while it was read",
                      m->name);
        if (n <= 0)
            return NULL;
        done += (size_t)n;
    }
    return buffer;
}

// SHA-256 over the model, READ_SIZE bytes at a time.
static int hash_by_parts(struct model *m, struct sha256 *h, struct error *e)
{
    cleanup(free_p) uint8_t *buffer = malloc(READ_SIZE);
    if (!buffer)
        return error_no_memory(e, "reading a model", READ_SIZE);
    for (uint64_t at = 0; at < m->size;) {
        size_t n = m->size - at < READ_SIZE ? (size_t)(m->size - at) : READ_SIZE;
        const uint8_t *part = model_read(m, at, n, buffer, e);
        if (!part)
            return e->code;
        sha256_update(h, part, n);
        at += n;
    }
    return 0;
}

// Fills in m->sha256.
static int model_hash(struct model *m, struct error *e)
{
    struct sha256 h;
    int r = sha256_init(&h, e);
    if (r < 0)
        return r;
    r = hash_by_parts(m, &h, e);
    if (r == 0)
        sha256_final(&h, m->sha256);
    else
        sha256_done(&h);
    return r;
}

// Cuts `m`, which is `all` bytes, down to a part.
static int choose_part(struct model *m, uint64_t all, uint64_t offset, uint64_t size,
                       struct error *e)
{
    if (offset > all || size > all - offset)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the part of %llu bytes from %llu on is not inside the %llu bytes of %s",
                         (unsigned long long)size, (unsigned long long)offset,
                         (unsigned long long)all, m->name);
    m->offset = offset;
    m->size = size ? size : all - offset;
    if (m->size == 0)
        return error_set(e, STATUS_MODEL_INVALID, "%s is empty", m->name);
    return 0;
}

int model_from_memory(struct model *m, const void *data, uint64_t all, uint64_t offset,
                      uint64_t size, struct error *e)
{
    *m = (struct model){.fd = -1, .name = "(memory)"};
    int r = choose_part(m, all, offset, size, e);
    if (r < 0)
        return r;
    m->data = (const uint8_t *)data + m->offset;
    return model_hash(m, e);
}

// The hash of an unchanged file is remembered. A bundle's never is: its other files would have to
// be compared, too.
static int hash_file(struct model *m, const struct stat *st, struct error *e)
{
    struct known k = {.device = st->st_dev,
                      .inode = st->st_ino,
                      .file_size = st->st_size,
                      .modified = st->st_mtim,
                      .changed = st->st_ctim,
                      .offset = m->offset,
                      .size = m->size};
    if (model_recall(&k)) {
        memcpy(m->sha256, k.sha256, sizeof k.sha256);
        return 0;
    }
    int r = model_hash(m, e);
    if (r == 0) {
        memcpy(k.sha256, m->sha256, sizeof k.sha256);
        model_remember(&k);
    }
    return r;
}

// EMFILE, ENFILE and ENOMEM say nothing about the file, so they are not the model's fault.
static int cannot_open(int error, const char *what, const char *path, struct error *e)
{
    if (error == EMFILE || error == ENFILE)
        return error_set_errno(e, STATUS_FAIL, error,
                               "%s %.300s cannot be opened: the %s has as many files open as it "
                               "may; close some, or raise the limit (%s)",
                               what, path, error == EMFILE ? "process" : "system",
                               error == EMFILE ? "ulimit -n" : "sysctl fs.file-max");
    if (error == ENOMEM)
        return error_no_memory(e, what, 0);
    return error_set_errno(e, STATUS_MODEL_INVALID, error, "%s %.300s", what, path);
}

// Only names are looked at, so that .rknn files are not walked as ONNX.
static bool may_have_others(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".onnx") == 0;
}

// A bundle with the files in the model's folder, if weights are in such.
static int join_files(struct model *m, const char *path, struct error *e)
{
    const char *slash = strrchr(path, '/');
    cleanup(free_p) char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!name)
        return error_no_memory(e, "a file's name", strlen(path));
    cleanup(fd_close_p) int folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return cannot_open(errno, "folder", name, e);
    int r = bundle_open(m->fd, m->size, folder, &m->bundle, e);
    if (r == 0 && m->bundle)
        m->size = bundle_size(m->bundle);
    return r;
}

// O_NONBLOCK: opening a FIFO must not block; regular files ignore it. A part of a file is never
// joined with others: which folder's names it means is not known.
int model_from_file(struct model *m, const char *path, uint64_t offset, uint64_t size,
                    struct error *e)
{
    struct stat st;
    *m = (struct model){.fd = -1};
    const char *slash = strrchr(path, '/');
    snprintf(m->name, sizeof m->name, "%.127s", slash && slash[1] ? slash + 1 : path);
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cannot_open(errno, "model file", path, e);
    if (!S_ISREG(st.st_mode))
        return error_set(e, STATUS_MODEL_INVALID, "%.300s is not a file", path);
    m->fd = fd;
    int r = choose_part(m, (uint64_t)st.st_size, offset, size, e);
    if (r == 0 && m->size == (uint64_t)st.st_size && may_have_others(path))
        r = join_files(m, path, e);
    if (r == 0)
        r = m->bundle ? model_hash(m, e) : hash_file(m, &st, e);
    if (r < 0)
        m->fd = -1;
    else
        m->fd = steal_fd(&fd);
    return r;
}

void model_done(struct model *m)
{
    bundle_free(m->bundle);
    m->bundle = NULL;
    m->fd = fd_close(m->fd);
}
