// Buffers out of udmabuf: the pages of a memfd as a dma-buf. The kernel demands a memfd that is
// sealed against shrinking, since pages must not vanish under the device, and a size in whole
// pages.
#include <linux/udmabuf.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "npu/buffer/kind.h"

#define DEVICE "/dev/udmabuf"

static int open_udmabuf(struct npu_buffers *b, const char *part, struct error *e)
{
    (void)part;
    b->device = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (b->device < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, DEVICE);
    return 0;
}

// The dma-buf holds the pages: the memfd is closed on return.
static int allocate(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                    struct error *e)
{
    uint64_t pages;
    int r = npu_buffer_pages(size, &pages, e);
    if (r < 0)
        return r;
    cleanup(fd_close_p) int memory = fd_memory("rknnd-mem", pages, e);
    if (memory < 0)
        return memory;
    struct udmabuf_create create = {
        .memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = pages};
    if (fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot seal shared memory");
    int fd = ioctl(b->device, UDMABUF_CREATE, &create);
    if (fd < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno,
                               "no dma-buf of %llu bytes (the kernel's limit is "
                               "/sys/module/udmabuf/parameters/size_limit_mb)",
                               (unsigned long long)pages);
    *ret = (struct npu_buffer){.fd = fd, .size = pages};
    return 0;
}

const struct npu_buffer_kind npu_buffer_udmabuf = {
    .name = "udmabuf", .open = open_udmabuf, .allocate = allocate};
