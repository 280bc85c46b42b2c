// Reads whole files, pipes and standard input. Called from the main thread only: standard input is
// kept in a static variable because it can be read only once.
#include "tools/input/input_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "tools/image/image.h"

#define FIRST_ROOM  (1u << 16)
#define MAX_PICTURE (IMAGE_MAX_PIXELS * (size_t)4) // bytes of its file

// The descriptor may be -1, of a file that could not be opened.
static void close_p(int *fd)
{
    if (*fd > STDIN_FILENO)
        close(*fd);
}

static int refuse_size(uint64_t most, struct error *e)
{
    return error_set(e, STATUS_INPUT_INVALID, "more than %llu bytes, which the input does not take",
                     (unsigned long long)most);
}

// Reads to the end; a pipe does not say how much will come, and /dev/zero has none. A file that has
// a size (`expected`, else 0) ends where a read stops there that had room for more: that spares
// calibrations of small samples another read of each.
static int read_all(int fd, size_t expected, uint64_t most, struct input_bytes *ret,
                    struct error *e)
{
    size_t room = expected ? expected + 1 : FIRST_ROOM;
    cleanup(free_p) char *data = malloc(room);
    size_t size = 0;
    while (data) {
        ssize_t n = read(fd, data + size, room - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(e, STATUS_INPUT_INVALID, "%s", strerror(errno));
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > most && !(size <= MAX_PICTURE && image_format(data, size)))
            return refuse_size(image_format(data, size) ? MAX_PICTURE : most, e);
        if (size == expected)
            break;
        if (size < room)
            continue;
        if (array_reserve(data, room, room + 1, "an input", e) < 0)
            return e->code;
    }
    if (!data)
        return error_no_memory(e, "an input", 0);
    *ret = (struct input_bytes){.data = data, .size = size};
    data = NULL;
    return 0;
}

// The size is only a hint: a file in /proc has size 0, and any file may grow meanwhile.
static int read_fd(int fd, uint64_t most, struct input_bytes *ret, struct error *e)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(e, STATUS_INPUT_INVALID, "%s", strerror(errno));
    if (S_ISDIR(status.st_mode))
        return error_set(e, STATUS_INPUT_INVALID,
                         "a folder; give one file for each input (several sets: --list)");
    if (S_ISCHR(status.st_mode) && isatty(fd))
        return error_set(e, STATUS_INPUT_INVALID, "a terminal; give data to read: -i - < FILE");
    bool known = S_ISREG(status.st_mode) && status.st_size >= 0;
    known = known && (uint64_t)status.st_size <= most;
    int r = read_all(fd, known ? (size_t)status.st_size : 0, most, ret, e);
    if (r == 0 && ret->size == 0) {
        free(ret->data);
        r = error_set(e, STATUS_INPUT_INVALID, "empty: there is no data in it");
    }
    return r;
}

// A failed read of standard input is not kept: the next call reads on.
int input_bytes_read(const char *path, uint64_t most, struct input_bytes *ret, struct error *e)
{
    static struct input_bytes standard_input;
    if (strcmp(path, "-") != 0) {
        cleanup(close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
        return read_fd(fd, most, ret, e);
    }
    int r = standard_input.data ? 0 : read_fd(STDIN_FILENO, most, &standard_input, e);
    if (r) {
        standard_input = (struct input_bytes){0};
        return r;
    }
    standard_input.kept = true;
    *ret = standard_input;
    return 0;
}

void input_bytes_done(struct input_bytes *b)
{
    if (!b->kept)
        free(b->data);
    *b = (struct input_bytes){0};
}
