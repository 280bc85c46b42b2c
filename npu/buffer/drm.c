// Dumb buffers of a DRM node, exported as dma-bufs. The vendor's NPU driver is a DRM driver
// (/dev/dri/cardN, "rknpu") and has such buffers though it has no display.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "base/cleanup.h"
#include "npu/buffer/kind.h"

#define NPU_DRIVER "rknpu" // of RK356x, RK3576, RK3588
#define MAX_NODES  64

// Whoever opens a display's node first becomes its master and keeps others from it, so that is
// given up at once.
static int open_node(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        drmDropMaster(fd);
    return fd;
}

static bool is_npu(int fd)
{
    drmVersion *v = drmGetVersion(fd);
    bool yes = v && strcmp(v->name, NPU_DRIVER) == 0;
    drmFreeVersion(v);
    return yes;
}

// Tries the card nodes by number; render nodes have no dumb buffers. Of several failures, one that
// permissions caused is reported.
static int find_npu(char *path, size_t size, struct error *e)
{
    int refused = 0;
    for (int i = 0; i < MAX_NODES; i++) {
        snprintf(path, size, "/dev/dri/card%d", i);
        cleanup(fd_close_p) int fd = open_node(path);
        if (fd < 0 && errno != ENOENT)
            refused = errno;
        if (fd >= 0 && is_npu(fd))
            return steal_fd(&fd);
    }
    if (refused)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, refused,
                               "no DRM node of driver " NPU_DRIVER
                               " among those of /dev/dri that can be opened");
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no DRM node of driver " NPU_DRIVER);
}

static int open_drm(struct npu_buffers *b, const char *part, struct error *e)
{
    char path[32];
    const char *node = part ? part : path;
    b->device = part ? open_node(part) : find_npu(path, sizeof path, e);
    if (b->device < 0 && part)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "%.128s", part);
    if (b->device < 0)
        return b->device;
    snprintf(b->name, sizeof b->name, "drm %s", node);
    return 0;
}

// A dumb buffer is a picture: this one has a byte per pixel and rows of 4096 bytes.
// DRM_CAP_DUMB_BUFFER is not asked for: nodes without a display deny what they can do.
static int create(int device, uint64_t pages, uint32_t *ret_handle, uint64_t *ret_size,
                  struct error *e)
{
    const uint32_t row = 4096;
    uint32_t pitch;
    int r = -EINVAL;
    if (pages / row <= UINT32_MAX)
        r = drmModeCreateDumbBuffer(device, row, (uint32_t)(pages / row), 8, 0, ret_handle, &pitch,
                                    ret_size);
    if (r < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, -r, "no dumb buffer of %llu bytes",
                               (unsigned long long)pages);
    return 0;
}

// The handle is dropped after the export: the dma-buf keeps the memory alive.
static int allocate(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                    struct error *e)
{
    uint64_t pages, real;
    uint32_t handle;
    int fd = -1, r = npu_buffer_pages(size, &pages, e);
    if (r == 0)
        r = create(b->device, pages, &handle, &real, e);
    if (r != 0)
        return r;
    if (drmPrimeHandleToFD(b->device, handle, DRM_CLOEXEC | DRM_RDWR, &fd) < 0)
        r = error_set_errno(e, STATUS_MALLOC_FAIL, errno, "a dumb buffer cannot be exported");
    drmModeDestroyDumbBuffer(b->device, handle); // the dma-buf keeps the memory
    if (r == 0)
        *ret = (struct npu_buffer){.fd = fd, .size = real};
    return r;
}

const struct npu_buffer_kind npu_buffer_drm = {
    .name = "drm", .part = "NODE", .open = open_drm, .allocate = allocate, .dirty = true};
