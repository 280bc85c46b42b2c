// The system calls of providers that have a driver: one table, so that a test can stand in for the
// kernel without a device and without tricks of the loader.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct device_calls {
    int (*open)(const char *path, int flags); // as open(2), and so on: -1 and errno
    int (*close)(int fd);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    void *(*map)(size_t size, int fd, uint64_t offset); // shared, read and write; MAP_FAILED
    int (*unmap)(void *map, size_t size);
    int (*wait)(int fd, int ms); // until it can be read: 1, or 0 after this time
};

/// Used by all providers. Tests change it before they open one.
extern const struct device_calls *device_calls;

/// As ioctl(), again when a signal or EAGAIN came in between: for requests that may be repeated.
/// Returns 0 or -errno.
int device_ioctl(int fd, unsigned long request, void *argument);

// Places where nodes of a driver may be: prefix "/dev/dri/renderD", numbers from `first` on.
struct device_nodes {
    const char *prefix; // NULL: the end of a list
    unsigned first, n;
};

/// The first node of DRM or accel of the driver with this name, opened; `path` gets its name.
/// STATUS_DEVICE_UNAVAILABLE with what was looked for when there is none.
#define DEVICE_PATH 128
int device_find(const char *driver, const struct device_nodes *where, char path[DEVICE_PATH],
                struct error *e);

/// A node that the user names, which has to be of that driver unless `driver` is NULL.
int device_open_named(const char *path, const char *driver, struct error *e);
