// The first line of a file.
#include "base/file/line.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

// For files of /proc and /sys, which fit in one read. O_NONBLOCK: the path may be a pipe or device.
// False: not readable or empty.
bool line_read(const char *path, char *ret, size_t size)
{
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (n <= 0)
        return false;
    ret[n] = 0;
    ret[strcspn(ret, "\n")] = 0;
    return *ret;
}
