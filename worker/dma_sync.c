// CPU access to dma-bufs.
//
// A backend that computes on the CPU reads and writes buffers that a camera or another device uses
// too. The kernel wants CPU access to be bracketed (DMA_BUF_IOCTL_SYNC): START before the run,
// which invalidates caches, and END after it, which writes them back. Inputs are opened for
// reading, outputs for writing. n_begun counts the tensors that are open, so that a failure
// half-way closes just those.
#include "worker/dma_sync.h"

#include "base/dmabuf.h"
#include "npu/buffer/buffer.h"

// The dma-buf of the i-th tensor, counting inputs first, then outputs. NULL: plain memory, which
// needs no bracket.
static const struct npu_buffer *dma_sync_tensor(const struct dma_sync *a, const struct npu_job *job,
                                                uint32_t i, unsigned *ret_access)
{
    bool input = i < a->n_inputs;
    *ret_access = input ? DMABUF_READ : DMABUF_WRITE;
    return input ? job->inputs[i].dmabuf : job->outputs[i - a->n_inputs].dmabuf;
}

bool dma_sync_waits(const struct dma_sync *a, const struct npu_job *job)
{
    unsigned unused;
    for (uint32_t i = 0; i < a->n_inputs + a->n_outputs; i++)
        if (dma_sync_tensor(a, job, i, &unused))
            return true;
    return false;
}

int dma_sync_begin(struct dma_sync *a, const struct npu_job *job, struct error *e)
{
    uint32_t n = a->n_inputs + a->n_outputs;
    for (a->n_begun = 0; a->n_begun < n; a->n_begun++) {
        unsigned access;
        const struct npu_buffer *b = dma_sync_tensor(a, job, a->n_begun, &access);
        int r = b ? dmabuf_begin(b->fd, access, e) : 0;
        if (r < 0) {
            dma_sync_end(a, job, NULL);
            return r;
        }
    }
    return 0;
}

// Closes all that are open even if one fails, and reports the failure of the last such one. `e` may
// be NULL where another error is reported already.
int dma_sync_end(struct dma_sync *a, const struct npu_job *job, struct error *e)
{
    int failed = 0;
    while (a->n_begun > 0) {
        unsigned access;
        const struct npu_buffer *b = dma_sync_tensor(a, job, --a->n_begun, &access);
        int r = b ? dmabuf_end(b->fd, access, e) : 0;
        failed = r < 0 ? r : failed;
    }
    return failed;
}
