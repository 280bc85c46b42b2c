// dma-bufs: how they are recognised, and their cache synchronisation (the kernel's dma-buf
// documentation, "CPU Access to DMA Buffer Objects"). SYNC_START makes what the device wrote
// visible to the CPU, SYNC_END what the CPU wrote visible to the device; on coherent machines both
// cost a system call.
#include "base/dmabuf.h"

#include <errno.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

_Static_assert(DMABUF_READ == DMA_BUF_SYNC_READ && DMABUF_WRITE == DMA_BUF_SYNC_WRITE, "");

bool dmabuf_is(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == DMA_BUF_MAGIC;
}

// The kernel asks for repetition after EINTR and EAGAIN.
static int sync_buffer(int fd, uint64_t flags, struct error *e)
{
    struct dma_buf_sync sync = {.flags = flags};
    int r;
    do
        r = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
    while (r < 0 && (errno == EINTR || errno == EAGAIN));
    return r == 0 ? 0 : error_set_errno(e, STATUS_FAIL, errno, "a dma-buf cannot be synchronised");
}

// START and END in a row: for memory that the CPU keeps mapped and accesses between calls.
static int sync_both(int fd, uint64_t access, struct error *e)
{
    int r = sync_buffer(fd, DMA_BUF_SYNC_START | access, e);
    return r < 0 ? r : sync_buffer(fd, DMA_BUF_SYNC_END | access, e);
}

int dmabuf_to_device(int fd, struct error *e)
{
    return sync_both(fd, DMA_BUF_SYNC_WRITE, e);
}

int dmabuf_from_device(int fd, struct error *e)
{
    return sync_both(fd, DMA_BUF_SYNC_READ, e);
}

// Caches are cleaned first: START for reading may discard dirty lines, and a dirty line must not be
// written back later over what a device writes.
int dmabuf_begin(int fd, unsigned access, struct error *e)
{
    int r = dmabuf_to_device(fd, e);
    return r < 0 ? r : sync_buffer(fd, DMA_BUF_SYNC_START | access, e);
}

int dmabuf_end(int fd, unsigned access, struct error *e)
{
    return sync_buffer(fd, DMA_BUF_SYNC_END | access, e);
}
