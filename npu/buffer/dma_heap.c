// Buffers out of a heap of the kernel's (CONFIG_DMABUF_HEAPS): one ioctl gives a dma-buf of zeroed
// pages.
#include <linux/dma-heap.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "npu/buffer/kind.h"

// The system's heap, and, for kernels that have none, that of contiguous memory, whose name depends
// on the kernel's age and devicetree (Documentation/userspace-api/dma-buf-heaps.rst); "cma" in the
// maker's kernels.
static const char *const usual[] = {"system",    "default_cma_region", "reserved",
                                    "linux,cma", "default-pool",       "cma"};

// The name comes from an option; a slash would lead out of /dev/dma_heap.
static int open_named(struct npu_buffers *b, const char *heap, struct error *e)
{
    char path[sizeof b->name + 16];
    int n = snprintf(b->name, sizeof b->name, "dma_heap %s", heap);
    if (n < 0 || (size_t)n >= sizeof b->name || strchr(heap, '/'))
        return error_set(e, STATUS_PARAM_INVALID, "\"%.64s\" is not the name of a dma_heap", heap);
    snprintf(path, sizeof path, "/dev/dma_heap/%s", heap);
    b->device = open(path, O_RDWR | O_CLOEXEC);
    if (b->device < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "%s", path);
    return 0;
}

// The heap named by the option, or the first of the usual ones. The error is that of the first.
static int open_heap(struct npu_buffers *b, const char *part, struct error *e)
{
    int r = open_named(b, part ? part : usual[0], e);
    for (size_t i = 1; i < sizeof usual / sizeof *usual && r < 0 && !part; i++)
        r = open_named(b, usual[i], NULL);
    return r;
}

static int allocate(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                    struct error *e)
{
    struct dma_heap_allocation_data a = {.fd_flags = O_RDWR | O_CLOEXEC};
    uint64_t pages;
    int r = npu_buffer_pages(size, &pages, e);
    if (r < 0)
        return r;
    a.len = pages;
    if (ioctl(b->device, DMA_HEAP_IOCTL_ALLOC, &a) < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "no dma-buf of %llu bytes",
                               (unsigned long long)pages);
    *ret = (struct npu_buffer){.fd = (int)a.fd, .size = pages};
    return 0;
}

const struct npu_buffer_kind npu_buffer_dma_heap = {
    .name = "dma_heap", .part = "NAME", .open = open_heap, .allocate = allocate};
