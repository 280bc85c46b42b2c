// Buffers: the choice of a kind, and what all kinds share. The order of preference, and why:
// buffer.h.
//
//      dma_heap   dma-buf from a heap of the kernel
//      drm        dma-buf from the NPU driver's DRM node
//      udmabuf    dma-buf made of ordinary pages
//      memfd      shared memory, no dma-buf: for backends without a device
#include "npu/buffer/buffer.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/dmabuf.h"
#include "base/fd.h"
#include "base/log.h"
#include "npu/buffer/kind.h"

static const struct npu_buffer_kind *const by_preference[] = {
    &npu_buffer_dma_heap, &npu_buffer_drm, &npu_buffer_udmabuf, &npu_buffer_memfd};

#define N_KINDS (sizeof by_preference / sizeof *by_preference)

// Sizes are untrusted: the check keeps the rounding from overflowing.
int npu_buffer_pages(uint64_t size, uint64_t *ret, struct error *e)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (size > PTRDIFF_MAX - page)
        return error_no_memory(e, "a buffer", size);
    *ret = align_up(size, page);
    return 0;
}

// ---- buffers -----------------------------------------------------------------------------------

// Memory of kinds that do not clear it may hold another program's data. The CPU's access is
// bracketed (DMA_BUF_IOCTL_SYNC), so that no stale cache line is written back later.
static int clear(const struct npu_buffer *b, struct error *e)
{
    int r = dmabuf_begin(b->fd, DMABUF_WRITE, e);
    if (r < 0)
        return r;
    memset(b->map, 0, (size_t)b->size);
    return dmabuf_end(b->fd, DMABUF_WRITE, e);
}

// Kinds may map on their own; the others are mapped here.
int npu_buffer_new(const struct npu_buffers *b, uint64_t size, struct npu_buffer *ret,
                   struct error *e)
{
    struct npu_buffer buffer = {.fd = -1};
    int r = b->kind->allocate(b, size, &buffer, e);
    if (r == 0 && !buffer.map && !(buffer.map = fd_map(buffer.fd, buffer.size, e)))
        r = STATUS_MALLOC_FAIL;
    if (r < 0) {
        fd_close(buffer.fd);
        return error_prefix(e, "%s", b->name);
    }
    if (b->kind->dirty)
        r = clear(&buffer, e);
    if (r < 0)
        npu_buffer_done(&buffer);
    else
        *ret = buffer;
    return r;
}

void npu_buffer_done(struct npu_buffer *b)
{
    if (b->map)
        munmap(b->map, (size_t)b->size);
    fd_close(b->fd);
    *b = (struct npu_buffer){.fd = -1};
}

// ---- the choice --------------------------------------------------------------------------------

void npu_buffers_close(struct npu_buffers *b)
{
    if (b->kind)
        fd_close(b->device);
    *b = (struct npu_buffers){0};
}

// Allocates one buffer as a probe: devices exist that open but cannot allocate, and then the next
// kind is tried.
static int open_kind(struct npu_buffers *b, const struct npu_buffer_kind *kind, const char *part,
                     struct error *e)
{
    struct npu_buffers opened = {.kind = kind, .device = -1};
    struct npu_buffer probe = {.fd = -1};
    snprintf(opened.name, sizeof opened.name, "%s", kind->name);
    int r = kind->open(&opened, part, e);
    if (r == 0)
        r = npu_buffer_new(&opened, 1, &probe, e);
    npu_buffer_done(&probe);
    if (r == 0)
        *b = opened;
    else
        npu_buffers_close(&opened);
    return r;
}

// "KIND" or "KIND:PART"; *ret_part is NULL if there is none.
static const struct npu_buffer_kind *parse(const char *wanted, const char **ret_part)
{
    size_t n = strcspn(wanted, ":");
    for (size_t i = 0; i < N_KINDS; i++) {
        const struct npu_buffer_kind *k = by_preference[i];
        bool bare = wanted[n] == 0, named = k->part && wanted[n] && wanted[n + 1];
        if (strlen(k->name) != n || strncmp(k->name, wanted, n) != 0 || !(bare || named))
            continue;
        *ret_part = bare ? NULL : wanted + n + 1;
        return k;
    }
    return NULL;
}

int npu_buffers_check(const char *wanted, struct error *e)
{
    const char *part;
    if (strcmp(wanted, "auto") == 0 || parse(wanted, &part))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" is none of auto, drm[:NODE], dma_heap[:NAME], udmabuf, memfd", wanted);
}

static int open_best(struct npu_buffers *b, struct error *e)
{
    int r = STATUS_DEVICE_UNAVAILABLE;
    for (size_t i = 0; i < N_KINDS && r < 0; i++) {
        r = open_kind(b, by_preference[i], NULL, e);
        if (r < 0)
            log_debug("buffers: %s", e->text);
    }
    return r;
}

int npu_buffers_open(struct npu_buffers *b, const char *wanted, bool dma, struct error *e)
{
    const char *part = NULL;
    int r = npu_buffers_check(wanted, e);
    if (r < 0)
        return r;
    if (strcmp(wanted, "auto") == 0)
        return dma ? open_best(b, e) : open_kind(b, &npu_buffer_memfd, NULL, e);
    const struct npu_buffer_kind *kind = parse(wanted, &part);
    return open_kind(b, kind, part, e);
}
