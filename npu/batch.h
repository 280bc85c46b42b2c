// How many inputs of a kind one run of a model takes.
#pragma once

#include "npu/npu.h"

/// rknn_batch_size: the first dimension of every input and output (SDK guide 5.6.3), where inputs
/// have 4; else 1.
static inline uint32_t npu_batch(const struct npu_model_info *info)
{
    uint32_t n = info->n_inputs ? info->inputs[0].logical.dims[0] : 1;
    for (uint32_t i = 0; i < info->n_inputs; i++)
        if (info->inputs[i].logical.n_dims != 4 || info->inputs[i].logical.dims[0] != n)
            return 1;
    for (uint32_t i = 0; i < info->n_outputs; i++)
        if (info->outputs[i].logical.dims[0] != n)
            return 1;
    return n;
}
