// CPU access to the dma-bufs that a job's tensors are in.
#pragma once

#include "npu/npu.h"

struct dma_sync {
    uint32_t n_inputs, n_outputs; // of the job
    uint32_t n_begun;             // 0: none is open
};

/// Whether the job has tensors in dma-bufs, so that dma_sync_begin() may block.
bool dma_sync_waits(const struct dma_sync *a, const struct npu_job *job);

/// Opens all of them for a run, or none.
int dma_sync_begin(struct dma_sync *a, const struct npu_job *job, struct error *e);

/// After the run, or in place of one: what it wrote is there for devices. A failure is the run's.
int dma_sync_end(struct dma_sync *a, const struct npu_job *job, struct error *e);
