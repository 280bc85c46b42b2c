// Where the memory comes from that programs share with the NPU: dma-bufs, which cameras, decoders,
// GPUs and NPUs take, or a plain memfd.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// A buffer: a file of a size that nobody can change, mapped. Zeroed when it is new.
struct npu_buffer {
    int fd;
    uint8_t *map;
    uint64_t size; // bytes: at least those that were asked for
};

// Where buffers come from: one way, chosen once.
struct npu_buffers {
    const struct npu_buffer_kind *kind; // NULL: none; to be freed all the same
    int device;                         // -1: it has none
    char name[64];                      // for people: "dma_heap system", "drm /dev/dri/card1"
};

/// What --buffers says: "drm[:NODE]", "dma_heap[:NAME]", "udmabuf", "memfd", or "auto". A kind that
/// is named has to work: STATUS_DEVICE_UNAVAILABLE says why it does not. "auto" is a memfd, unless
/// a device of its own reads and writes the buffers (`dma`): then it is the first of these that
/// works: a dma_heap (the system's, else that of contiguous memory), whose memory CPUs cache
/// (rknn_create_mem() promises that); dumb buffers of the NPU's DRM node, which the NPU can always
/// use, and which its driver maps write-combined; udmabuf; memfd. Makes a buffer to find out. May
/// block.
int npu_buffers_open(struct npu_buffers *b, const char *wanted, bool dma, struct error *e);
void npu_buffers_close(struct npu_buffers *b); // zeroed: fine

/// Whether --buffers may say so; words if not.
int npu_buffers_check(const char *wanted, struct error *e);

/// From any thread, also several at once. May block: the kernel clears the memory.
int npu_buffer_new(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                   struct error *e);

/// Unmaps and closes; others that have the file keep it.
void npu_buffer_done(struct npu_buffer *b);
