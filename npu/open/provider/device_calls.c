// The one place where calls to the kernel are made, so that a test can stand in for the kernel and
// hold each structure against tables of its own.
#include "npu/open/provider/device_calls.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int call_open(const char *path, int flags)
{
    return open(path, flags);
}

static int call_ioctl(int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}

static void *call_map(size_t size, int fd, uint64_t offset)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
}

static int call_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms);
}

static const struct device_calls of_kernel = {.open = call_open,
                                              .close = close,
                                              .ioctl = call_ioctl,
                                              .map = call_map,
                                              .unmap = munmap,
                                              .wait = call_wait};

const struct device_calls *device_calls = &of_kernel;

int device_ioctl(int fd, unsigned long request, void *argument)
{
    for (;;) {
        if (device_calls->ioctl(fd, request, argument) == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
    }
}

static bool device_is(int fd, const char *driver)
{
    char name[32];
    struct drm_version v = {.name = name, .name_len = sizeof name};
    size_t n = strlen(driver);
    return device_ioctl(fd, DRM_IOCTL_VERSION, &v) == 0 && v.name_len == n &&
           memcmp(name, driver, n) == 0;
}

int device_open_named(const char *path, const char *driver, struct error *e)
{
    int fd = device_calls->open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "%.200s", path);
    if (!driver || device_is(fd, driver))
        return fd;
    device_calls->close(fd);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%.200s is not a node of the driver \"%s\"",
                     path, driver);
}

// The node's fd, or -1, with *refused set when it is there and cannot be opened.
static int try_node(const char *path, const char *driver, int *refused)
{
    int fd = device_calls->open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT && errno != ENODEV && errno != ENXIO)
            *refused = errno;
        return -1;
    }
    if (device_is(fd, driver))
        return fd;
    device_calls->close(fd);
    return -1;
}

static int explain_missing(const char *driver, const struct device_nodes *where, int refused,
                           struct error *e)
{
    char looked[128] = "";
    size_t n = 0;
    for (; where->prefix && n < sizeof looked; where++)
        n += (size_t)snprintf(looked + n, sizeof looked - n, "%s%s*", n ? ", " : "", where->prefix);
    if (refused)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, refused,
                               "no node of the driver \"%s\" among those of %s that this process "
                               "may open",
                               driver, looked);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no node of the driver \"%s\" among %s", driver,
                     looked);
}

int device_find(const char *driver, const struct device_nodes *where, char path[DEVICE_PATH],
                struct error *e)
{
    int refused = 0;
    for (const struct device_nodes *w = where; w->prefix; w++)
        for (unsigned i = 0; i < w->n; i++) {
            snprintf(path, DEVICE_PATH, "%s%u", w->prefix, w->first + i);
            int fd = try_node(path, driver, &refused);
            if (fd >= 0)
                return fd;
        }
    return explain_missing(driver, where, refused, e);
}
