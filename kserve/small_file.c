#include "kserve/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

int file_cannot_open(const char *path, struct error *e)
{
    int r = errno == ENOMEM                      ? STATUS_MALLOC_FAIL
            : errno == EMFILE || errno == ENFILE ? STATUS_DEVICE_UNAVAILABLE
                                                 : STATUS_FAIL;
    return error_set_errno(e, r, errno, "%s", path);
}

// O_NONBLOCK: a pipe would wait for somebody who writes to it.
int small_file_read(const char *path, size_t most, char **ret, struct error *e)
{
    struct stat s;
    *ret = NULL;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &s) < 0)
        return file_cannot_open(path, e);
    if (!S_ISREG(s.st_mode) || s.st_size < 0 || (size_t)s.st_size > most)
        return error_set(e, STATUS_PARAM_INVALID, "%s is no file of at most %zu bytes", path, most);
    cleanup(free_p) char *text = calloc(1, (size_t)s.st_size + 1);
    if (!text)
        return error_no_memory(e, "a file beside a model", (uint64_t)s.st_size);
    if (read(fd, text, (size_t)s.st_size) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    *ret = steal_ptr(text);
    return 0;
}
