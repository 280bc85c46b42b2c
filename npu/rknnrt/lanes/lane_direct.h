// Which tensors of a job are in dma-bufs in a form that the runtime takes, so that the NPU uses
// them where they are.
#pragma once

#include "npu/npu.h"
#include "npu/rknnrt/runtime.h"

/// Whether an input's bytes are those of `form`, in which it would be bound.
bool lane_direct_input(const struct npu_input *in, const struct tensor_io *io,
                       const struct tensor_attr *form);

/// The attribute with which an output is bound where it is wanted. False: there is none, it has to
/// be converted.
bool lane_direct_output(const struct npu_output *out, const struct tensor_io *io,
                        struct tensor_attr *ret);

/// Whether the job has tensors of this kind, and the runtime the functions for it. Models of
/// dynamic shapes have none.
bool lane_direct_helps(const struct runtime *r, const struct npu_model_info *info,
                       const struct npu_job *job);
