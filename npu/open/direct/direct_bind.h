// Inputs and outputs of a job that stay in the program's dma-bufs: the NPU reads and writes them
// there, and nothing of them is copied. Addresses in a context's commands follow.
#pragma once

#include "npu/open/direct/imports.h"
#include "npu/open/open_context.h"

/// Chooses for each input and output of a job, and changes the context's commands where that is
/// another choice than the last job's. Without `job` all are in the arena, as in one that is looked
/// into. Why a dma-buf is copied is logged, once in a row.
int direct_bind(struct npu_context *c, const struct npu_job *job, struct error *e);

/// Goes on to a later part of the batch.
int direct_part(struct npu_context *c, uint32_t item, struct error *e);

/// Makes an input or output (inputs count first) that is not in the arena the NPU's, or a CPU's.
int direct_sync(struct npu_context *c, uint32_t port, enum provider_way way, struct error *e);
