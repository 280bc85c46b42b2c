// The folder that the runtime dumps layers to, one .npy file for each. All runs use the same one,
// so those of several processes would mix: flock() on the folder lets one in at a time. inotify
// tells of each file when it is complete (closed after writing, or renamed to its place).
#include "npu/rknnrt/dump/dump_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define SUFFIX ".npy"

// Creates the folder if need be; blocks while another run has it. An open descriptor, which holds
// the lock.
static int lock_folder(const char *path, struct error *e)
{
    int fd = -1, r = mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
    if (r == 0)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
        continue;
    if (fd >= 0 && r == 0)
        return fd;
    error_set_errno(e, STATUS_FAIL, errno,
                    "the runtime dumps layers to %s, which cannot be used (another folder: "
                    "--backend vendor:PATH,dumps=FOLDER)",
                    path);
    return fd_close(fd);
}

int dump_folder_open(struct dump_folder *d, const char *path, struct error *e)
{
    *d = (struct dump_folder){.fd = lock_folder(path, e), .watch = -1};
    if (d->fd < 0)
        return STATUS_FAIL;
    d->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (d->watch >= 0 && inotify_add_watch(d->watch, path, IN_CLOSE_WRITE | IN_MOVED_TO) >= 0)
        return 0;
    error_set_errno(e, STATUS_FAIL, errno, "cannot watch %s", path);
    dump_folder_close(d);
    return STATUS_FAIL;
}

void dump_folder_close(struct dump_folder *d)
{
    fd_close(d->watch);
    fd_close(d->fd);
    d->watch = d->fd = -1;
}

// Events are contiguous in what read() gives, each followed by its name. 1, or 0: there is none
// yet.
static int next_event(struct dump_folder *d, struct inotify_event *ret, const char **ret_name)
{
    if (d->at == d->size) {
        ssize_t n = read(d->watch, d->events, sizeof d->events);
        if (n <= 0)
            return 0;
        d->at = 0;
        d->size = (size_t)n;
    }
    memcpy(ret, d->events + d->at, sizeof *ret);
    *ret_name = d->events + d->at + sizeof *ret;
    d->at += sizeof *ret + ret->len;
    return 1;
}

static bool is_dump(const char *name)
{
    size_t n = strlen(name), end = strlen(SUFFIX);
    return n > end && strcmp(name + n - end, SUFFIX) == 0;
}

// An overflow of the queue would lose layers without notice, so it is an error.
int dump_folder_next(struct dump_folder *d, const char **ret_name, struct error *e)
{
    struct inotify_event event;
    while (next_event(d, &event, ret_name)) {
        if (event.mask & IN_Q_OVERFLOW)
            return error_set(e, STATUS_FAIL, "the runtime dumps layers faster than they are read");
        if (event.len > 0 && is_dump(*ret_name))
            return 1;
    }
    return 0;
}

// Opens without following links and without blocking on a FIFO: others can write to such folders. A
// file that was written twice has two events, but is there once.
static int open_file(const struct dump_folder *d, const char *name, size_t *ret_size,
                     struct error *e)
{
    struct stat st;
    int fd = openat(d->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot open it");
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > UINT32_MAX) {
        fd_close(fd);
        return error_set(e, STATUS_FAIL, "no file, or above 4 GB");
    }
    *ret_size = (size_t)st.st_size;
    return fd;
}

static int read_all(int fd, uint8_t *to, size_t size, struct error *e)
{
    while (size > 0) {
        ssize_t n = read(fd, to, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return error_set(e, STATUS_FAIL, "cannot read it to its end");
        if (n > 0) {
            to += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

// Reads a file whole and removes it, also when it cannot be read: the folder must not grow.
int dump_folder_take(const struct dump_folder *d, const char *name, void **ret, size_t *ret_size,
                     struct error *e)
{
    cleanup(fd_close_p) int fd = open_file(d, name, ret_size, e);
    unlinkat(d->fd, name, 0);
    if (fd < 0)
        return fd;
    cleanup(free_p) void *data = malloc(*ret_size + 1);
    if (!data)
        return error_no_memory(e, "a layer", *ret_size);
    int r = read_all(fd, data, *ret_size, e);
    if (r == 0)
        *ret = steal_ptr(data);
    return r;
}
