// Inside of npu/buffer: one way to get buffers.
#pragma once

#include "npu/buffer/buffer.h"

struct npu_buffer_kind {
    const char *name; // as in --buffers
    const char *part; // what may follow it there, for people; NULL: nothing
    /// Opens the device (b->device) and says so in b->name. `part` NULL: the usual one.
    int (*open)(struct npu_buffers *b, const char *part, struct error *e);
    /// Fills ret->fd and ret->size (`size` is not 0), and ret->map if it is mapped by then.
    int (*allocate)(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                    struct error *e);
    bool dirty; // the kernel may give memory as it was left
};

extern const struct npu_buffer_kind npu_buffer_drm, npu_buffer_dma_heap, npu_buffer_udmabuf,
    npu_buffer_memfd;

/// Rounds up to whole pages. Words if that is too much.
int npu_buffer_pages(uint64_t size, uint64_t *ret, struct error *e);
