// Copies are made by the kernel where it can, which may take no time and no room (reflinks), and by
// way of a buffer elsewhere: between file systems, from network file systems of old kernels.
#include "quant/model/quant_nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PART  (1u << 20) // bytes that go by way of memory
#define SMALL (64 << 20) // bytes that are kept in memory

// Not all file systems have files without a name. /tmp is memory on many machines.
int quant_nameless_open(void)
{
    const char *own = getenv("TMPDIR");
    const char *folders[] = {own && *own ? own : "/var/tmp", "/tmp"};
    int fd = -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && fd < 0; i++)
        fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? memfd_create("rknnd-quantize", MFD_CLOEXEC) : fd;
}

static int nameless_shorter(struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID, "it became shorter while it was read");
}

// Some of the bytes from `at` on: how many; 0: the file ends; below 0: errno.
static ssize_t nameless_some(int from, int to, off_t at, size_t n, char *buffer)
{
    off_t in = at, out = at;
    ssize_t done = copy_file_range(from, &in, to, &out, n, 0);
    if (done >= 0 || errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        return done;
    done = pread(from, buffer, n < PART ? n : PART, at);
    return done <= 0 ? done : pwrite(to, buffer, (size_t)done, at);
}

// Up to `end`, of which the file has all or has become shorter.
static int nameless_range(int from, int to, off_t at, off_t end, char *buffer, struct error *e)
{
    while (at < end) {
        ssize_t done = nameless_some(from, to, at, (size_t)(end - at), buffer);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_set_errno(e, STATUS_FAIL, errno,
                                   "its copy cannot be written (set TMPDIR to a folder with room "
                                   "for %" PRId64 " bytes)",
                                   (int64_t)end);
        if (!done)
            return nameless_shorter(e);
        at += done;
    }
    return 0;
}

// What lies between holes, one after the other. File systems without holes say that all is data.
static int nameless_data(int from, int to, off_t size, char *buffer, struct error *e)
{
    int r = 0;
    for (off_t at = 0, end; at < size && r == 0; at = end) {
        at = lseek(from, at, SEEK_DATA);
        if (at < 0 && errno == ENXIO) // only a hole is left, or the file has become shorter
            return lseek(from, 0, SEEK_END) < size ? nameless_shorter(e) : 0;
        end = at < 0 ? -1 : lseek(from, at, SEEK_HOLE);
        if (end < 0) {
            at = at < 0 ? 0 : at;
            end = size;
        }
        end = end < size ? end : size;
        r = nameless_range(from, to, at, end, buffer, e);
    }
    return r;
}

static int nameless_copy(int file, off_t size, int to, struct error *e)
{
    cleanup(free_p) char *buffer = malloc(PART);
    if (!buffer)
        return error_no_memory(e, "a file", PART);
    if (to < 0 || ftruncate(to, size) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "a file for its copy");
    return nameless_data(file, to, size, buffer, e);
}

// What is small needs no room on a disk.
static int nameless_read(int file, char *data, size_t size, struct error *e)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = pread(file, data + at, size - at, (off_t)at);
        if (n < 0 && errno != EINTR)
            return error_set_errno(e, STATUS_MODEL_INVALID, errno, "it cannot be read");
        if (!n)
            return nameless_shorter(e);
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

// *ret: a copy where the file is large; below 0: it is small.
static int nameless_keep(int file, const struct stat *st, int *ret, struct error *e)
{
    *ret = -1;
    if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size > SIZE_MAX / 2)
        return error_set(e, STATUS_MODEL_INVALID, "it is no file");
    if (st->st_size <= SMALL)
        return 0;
    *ret = quant_nameless_open();
    return nameless_copy(file, st->st_size, *ret, e);
}

int quant_nameless_map(int file, void **ret, size_t *ret_size, struct error *e)
{
    cleanup(fd_close_p) int copy = -1;
    struct stat st;
    *ret = NULL;
    *ret_size = 0;
    if (fstat(file, &st) < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "it cannot be read");
    int r = nameless_keep(file, &st, &copy, e);
    if (r < 0 || !st.st_size)
        return r;
    size_t size = (size_t)st.st_size;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | (copy < 0 ? MAP_ANONYMOUS : 0), copy, 0);
    if (data == MAP_FAILED)
        return error_set_errno(e, STATUS_FAIL, errno, "it cannot be mapped");
    if (copy < 0 && (r = nameless_read(file, data, size, e)) < 0) {
        munmap(data, size);
        return r;
    }
    *ret = data;
    *ret_size = size;
    return 0;
}
