// Writing: see shelf_disk.h for the order.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/shelf/shelf_disk.h"
#include "server/shelf/shelf_private.h"

#define COPY_SIZE (1u << 20)
#define MAX_DEPTH 3 // NAME/VERSION/model

#define NEW  ".new-"
#define GONE ".gone-"
#define LOCK ".lock"

#define LOCK_PATIENCE_MS 3000
#define LOCK_PAUSE_MS    20

static int disk_failed(int error, const char *what, struct error *e)
{
    if (error == ENOSPC || error == EDQUOT)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "the model store's disk is full (%s); nothing was changed", what);
    if (error == EROFS || error == EACCES || error == EPERM)
        return error_set_errno(e, STATUS_FAIL, error, "the model store cannot be written (%s)",
                               what);
    return error_set_errno(e, STATUS_FAIL, error, "the model store: %s", what);
}

// ---- one writer at a time -----------------------------------------------------------------------

// Of this process's other threads, too: the lock belongs to what is opened here. A file, and not
// the folder: whoever can read that could hold its lock. Another daemon's hold is waited for, but
// others wait for this thread.
static int lock_root(int root, struct error *e)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000};
    int fd = openat(root, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    int r = fd;
    for (unsigned ms = 0; r >= 0 && (r = flock(fd, LOCK_EX | LOCK_NB)) < 0; r = fd) {
        bool held = errno == EWOULDBLOCK && ms < LOCK_PATIENCE_MS;
        if (!held && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
        ms += LOCK_PAUSE_MS;
    }
    if (r >= 0)
        return fd;
    if (fd >= 0 && errno == EWOULDBLOCK)
        error_set(e, STATUS_FAIL,
                  "another process writes to the model store (it has locked " LOCK
                  "); try again later");
    else
        disk_failed(errno, "its lock", e);
    fd_close(fd);
    return e->code;
}

static int temporary_name(const char *prefix, char ret[32], struct error *e)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return error_set_errno(e, STATUS_FAIL, errno, "random numbers");
    snprintf(ret, 32, "%s%016" PRIx64, prefix, number);
    return 0;
}

static int sync_folder(int folder, struct error *e)
{
    return fsync(folder) < 0 ? disk_failed(errno, "syncing a folder", e) : 0;
}

// ---- removing -----------------------------------------------------------------------------------

static int remove_tree(int in, const char *name, unsigned depth, struct error *e);

static int remove_contents(int folder, unsigned depth, struct error *e)
{
    cleanup(closedir_p) DIR *d = shelf_names(folder);
    const struct dirent *entry;
    int r = 0;
    if (!d)
        return disk_failed(errno, "reading a folder", e);
    while (r == 0 && (entry = readdir(d)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = remove_tree(folder, entry->d_name, depth, e);
    return r;
}

// Not through symbolic links, which go themselves.
static int remove_tree(int in, const char *name, unsigned depth, struct error *e)
{
    if (unlinkat(in, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return disk_failed(errno, "removing a file", e);
    cleanup(fd_close_p) int folder = depth > 0 ? shelf_folder(in, name) : -1;
    if (folder < 0)
        return disk_failed(depth > 0 ? errno : ELOOP, "removing a folder", e);
    int r = remove_contents(folder, depth - 1, e);
    if (r == 0 && unlinkat(in, name, AT_REMOVEDIR) < 0)
        r = disk_failed(errno, "removing a folder", e);
    return r;
}

// What was moved away is gone for everybody; what is left of it after a failure, or a crash, goes
// with clean_locked().
static void drop_tree(int root, const char *name)
{
    struct error e;
    if (remove_tree(root, name, MAX_DEPTH, &e) < 0)
        log_warn("what is left at %s in the model store: %s", name, e.text);
}

// A name without versions is none.
static void drop_empty_name(int root, const char *name)
{
    cleanup(fd_close_p) int folder = shelf_folder(root, name);
    cleanup(closedir_p) DIR *d = folder < 0 ? NULL : shelf_names(folder);
    const struct dirent *entry;
    while (d && (entry = readdir(d)))
        if (shelf_is_version(entry->d_name))
            return;
    if (folder >= 0)
        unlinkat(folder, SHELF_DEFAULT, 0);
    unlinkat(root, name, AT_REMOVEDIR);
}

static bool is_left(const char *name)
{
    return strncmp(name, NEW, strlen(NEW)) == 0 || strncmp(name, GONE, strlen(GONE)) == 0;
}

// What a crash, or a disk that failed, has left: folders under temporary names, which nobody can
// have opened, and names that got no version. Under the lock, so that no push of another daemon
// loses what it is writing.
static void clean_locked(int root)
{
    cleanup(closedir_p) DIR *d = shelf_names(root);
    const struct dirent *entry;
    while (d && (entry = readdir(d))) {
        if (is_left(entry->d_name))
            drop_tree(root, entry->d_name);
        else if (shelf_is_name(entry->d_name))
            drop_empty_name(root, entry->d_name);
    }
}

int shelf_clean(int root, struct error *e)
{
    cleanup(fd_close_p) int lock = lock_root(root, e);
    if (lock < 0)
        return lock;
    clean_locked(root);
    return 0;
}

// ---- storing ------------------------------------------------------------------------------------

// All bytes, whatever signals and short writes come between; -1 with errno.
static int write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static int copy_bytes(int from, int to, uint64_t size, struct error *e)
{
    cleanup(free_p) uint8_t *buffer = malloc(COPY_SIZE);
    if (!buffer)
        return error_no_memory(e, "copying a model", COPY_SIZE);
    for (uint64_t at = 0; at < size;) {
        size_t want = size - at < COPY_SIZE ? (size_t)(size - at) : COPY_SIZE;
        ssize_t n = pread(from, buffer, want, (off_t)at);
        if (n <= 0)
            return error_set_errno(e, STATUS_FAIL, n < 0 ? errno : EIO, "a model's memory");
        if (write_all(to, buffer, (size_t)n) < 0)
            return disk_failed(errno, "writing a model", e);
        at += (uint64_t)n;
    }
    return 0;
}

static int new_file(int folder, const char *name, struct error *e)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? disk_failed(errno, "making a file", e) : fd;
}

static int write_model(int folder, const struct shelf_put *p, struct error *e)
{
    cleanup(fd_close_p) int fd = new_file(folder, SHELF_MODEL, e);
    if (fd < 0)
        return fd;
    // A full disk is found at once, where the file system can tell.
    if (fallocate(fd, 0, 0, (off_t)p->manifest.size) < 0 && (errno == ENOSPC || errno == EDQUOT))
        return disk_failed(errno, "writing a model", e);
    int r = copy_bytes(p->fd, fd, p->manifest.size, e);
    if (r == 0 && fsync(fd) < 0)
        r = disk_failed(errno, "syncing a model", e);
    return r;
}

static int write_text(int folder, const char *name, const char *text, struct error *e)
{
    cleanup(fd_close_p) int fd = new_file(folder, name, e);
    if (fd < 0)
        return fd;
    if (write_all(fd, (const uint8_t *)text, strlen(text)) < 0 || fsync(fd) < 0)
        return disk_failed(errno, "writing a file", e);
    return 0;
}

// Each file is on the disk before the folder's entries are, and these before the folder gets its
// name: whoever finds the name finds all of it.
static int fill_folder(int folder, const struct shelf_put *p, const char *manifest, struct error *e)
{
    int r = write_model(folder, p, e);
    if (r == 0)
        r = write_text(folder, SHELF_MANIFEST, manifest, e);
    return r == 0 ? sync_folder(folder, e) : r;
}

// The name's folder, which stays empty if the version does not come into it.
static int make_name(int root, const char *name, struct error *e)
{
    int r = mkdirat(root, name, 0700);
    if (r < 0 && errno != EEXIST)
        return disk_failed(errno, "making a folder", e);
    if (r == 0 && sync_folder(root, e) < 0)
        return e->code;
    int fd = shelf_folder(root, name);
    return fd < 0 ? disk_failed(errno, "a name's folder", e) : fd;
}

// Into its place. There is no such version, since nobody else writes now.
static int publish(int root, const char *temporary, const struct stored *s, struct error *e)
{
    cleanup(fd_close_p) int folder = make_name(root, s->name, e);
    if (folder < 0)
        return folder;
    if (renameat(root, temporary, folder, s->version) < 0)
        return disk_failed(errno, "a model's new place", e);
    return sync_folder(folder, e);
}

// In a folder under a temporary name first, which is moved into its place when it is whole: a crash
// at any moment leaves the old version or the new one.
static int store_version(int root, const struct shelf_put *p, const struct stored *s,
                         const char *manifest, struct error *e)
{
    char temporary[32];
    int r = temporary_name(NEW, temporary, e);
    if (r == 0 && mkdirat(root, temporary, 0700) < 0)
        r = disk_failed(errno, "making a folder", e);
    if (r < 0)
        return r;
    cleanup(fd_close_p) int folder = shelf_folder(root, temporary);
    r = folder < 0 ? disk_failed(errno, "a new folder", e) : fill_folder(folder, p, manifest, e);
    if (r == 0)
        r = publish(root, temporary, s, e);
    if (r < 0) {
        drop_tree(root, temporary);
        drop_empty_name(root, s->name);
    }
    return r;
}

// ---- what may be stored -------------------------------------------------------------------------

static int check_room(const struct shelf_put *p, const struct stored *all, size_t n,
                      struct error *e)
{
    uint64_t owners = 0, total = 0, size = p->manifest.size;
    for (size_t i = 0; i < n; i++) {
        bool own = strcmp(all[i].manifest.owner, p->manifest.owner) == 0;
        total += all[i].manifest.size;
        owners += own ? all[i].manifest.size : 0;
    }
    const struct shelf_limits *l = &p->limits;
    if (n >= SHELF_MAX_STORED)
        return error_set(e, STATUS_MALLOC_FAIL, "the model store has %zu versions, and takes %d", n,
                         SHELF_MAX_STORED);
    if (l->owner && (size > l->owner || owners > l->owner - size))
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%s has %llu bytes of models stored, and may have %llu (quota stored)",
                         p->manifest.owner, (unsigned long long)owners,
                         (unsigned long long)l->owner);
    if (l->all && (size > l->all || total > l->all - size))
        return error_set(e, STATUS_MALLOC_FAIL,
                         "the model store has %llu bytes, and may have %llu (limit stored)",
                         (unsigned long long)total, (unsigned long long)l->all);
    return 0;
}

static const struct stored *find_version(const struct stored *all, size_t n, const char *name,
                                         const char *version)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0 && strcmp(all[i].version, version) == 0)
            return &all[i];
    return NULL;
}

// The next number, where no version is given; one that has been used otherwise is left out.
static void number_version(const struct shelf_put *p, const struct stored *all, size_t n,
                           struct stored *s)
{
    uint64_t order = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, p->name) == 0 && all[i].manifest.order > order)
            order = all[i].manifest.order;
    s->manifest.order = order + 1;
    snprintf(s->version, sizeof s->version, "%s", p->version);
    for (uint64_t number = order + 1; !*p->version; number++) {
        snprintf(s->version, sizeof s->version, "%" PRIu64, number);
        if (!find_version(all, n, p->name, s->version))
            return;
    }
}

static int other_bytes(const struct stored *s, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID,
                     "model %s has a version %s with other bytes; a version never changes: choose "
                     "another one, or remove it first",
                     s->name, s->version);
}

// Nothing is stored that could not be read again, whoever's fault that is.
static int write_manifest(const struct shelf_put *p, struct manifest *m, char **ret,
                          struct error *e)
{
    struct manifest again;
    int r = manifest_write(m, p->labels, p->description, ret, e);
    if (r < 0)
        return r;
    r = manifest_read((struct bytes){(const uint8_t *)*ret, strlen(*ret)}, &again, e);
    return r < 0 ? error_prefix(e, "the manifest that was to be stored") : 0;
}

static int put_locked(int root, const struct shelf_put *p, struct stored *ret, struct error *e)
{
    cleanup(free_p) struct stored *all = NULL;
    cleanup(free_p) char *manifest = NULL;
    struct stored s = {.manifest = p->manifest};
    size_t n = 0;
    int r = shelf_list(root, &all, &n, e);
    if (r < 0)
        return r;
    snprintf(s.name, sizeof s.name, "%s", p->name);
    number_version(p, all, n, &s);
    const struct stored *there = find_version(all, n, s.name, s.version);
    if (there) {
        bool same = memcmp(there->manifest.sha256, p->manifest.sha256, SHA256_SIZE) == 0;
        if (!same || *there->problem)
            return other_bytes(there, e);
        *ret = *there;
        return 0;
    }
    r = check_room(p, all, n, e);
    if (r == 0)
        r = write_manifest(p, &s.manifest, &manifest, e);
    if (r == 0)
        r = store_version(root, p, &s, manifest, e);
    return r < 0 ? r : shelf_find(root, s.name, s.version, ret, NULL, e);
}

int shelf_put(int root, const struct shelf_put *p, struct stored *ret, struct error *e)
{
    cleanup(fd_close_p) int lock = lock_root(root, e);
    if (lock < 0)
        return lock;
    clean_locked(root);
    return put_locked(root, p, ret, e);
}

// ---- removing versions, and choosing one --------------------------------------------------------

static int move_away(int root, int folder, const char *name, struct error *e)
{
    char temporary[32];
    int r = temporary_name(GONE, temporary, e);
    if (r == 0 && renameat(folder, name, root, temporary) < 0)
        r = disk_failed(errno, "moving a model away", e);
    if (r == 0)
        r = sync_folder(folder, e);
    if (r == 0)
        drop_tree(root, temporary);
    return r;
}

static bool is_chosen(int folder, const char *version)
{
    char text[SHELF_VERSION_SIZE + 1] = "";
    cleanup(fd_close_p) int fd =
        openat(folder, SHELF_DEFAULT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? strcspn(text, "\n") : 0] = 0;
    return strcmp(text, version) == 0;
}

static int remove_version(int root, const struct stored *all, size_t n, const char *name,
                          const char *version, struct error *e)
{
    cleanup(fd_close_p) int folder = shelf_folder(root, name);
    if (folder < 0 || !find_version(all, n, name, version))
        return error_set(e, STATUS_MODEL_INVALID, "model %s has no version %s", name, version);
    if (n > 1 && is_chosen(folder, version))
        return error_set(e, STATUS_PARAM_INVALID,
                         "version %s is the default one of %s: choose another one first (rknnctl "
                         "model default)",
                         version, name);
    int r = move_away(root, folder, version, e);
    if (r == 0 && n == 1)
        drop_empty_name(root, name);
    return r;
}

int shelf_remove(int root, const char *name, const char *version, struct error *e)
{
    cleanup(fd_close_p) int lock = lock_root(root, e);
    cleanup(free_p) struct stored *all = NULL;
    size_t n = 0, room = 0;
    int r = lock < 0 ? lock : shelf_versions(root, name, &all, &n, &room, e);
    if (r < 0)
        return r;
    return *version ? remove_version(root, all, n, name, version, e)
                    : move_away(root, root, name, e);
}

static int choose_default(int root, int folder, const char *version, struct error *e)
{
    char temporary[32], text[SHELF_VERSION_SIZE + 1];
    int r = temporary_name(NEW, temporary, e);
    snprintf(text, sizeof text, "%s\n", version);
    if (r == 0)
        r = write_text(root, temporary, text, e);
    if (r == 0 && renameat(root, temporary, folder, SHELF_DEFAULT) < 0)
        r = disk_failed(errno, "the default version", e);
    if (r < 0)
        unlinkat(root, temporary, 0);
    return r == 0 ? sync_folder(folder, e) : r;
}

int shelf_set_default(int root, const char *name, const char *version, struct error *e)
{
    struct stored found;
    cleanup(fd_close_p) int lock = lock_root(root, e);
    if (lock < 0)
        return lock;
    cleanup(fd_close_p) int folder = shelf_folder(root, name);
    if (*version || folder < 0) {
        int r = shelf_find(root, name, version, &found, NULL, e);
        return r < 0 ? r : choose_default(root, folder, version, e);
    }
    if (unlinkat(folder, SHELF_DEFAULT, 0) < 0 && errno != ENOENT)
        return disk_failed(errno, "the default version", e);
    return sync_folder(folder, e);
}
