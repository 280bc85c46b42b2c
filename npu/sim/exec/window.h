// Windows that move over images, in one dimension: output o sees input o * stride - pad + k *
// dilation at tap k.
#pragma once

#include "npu/model/graph.h"

/// The outputs along a dimension (0: lines, 1: columns) whose tap `k` is inside an image of n_in:
/// [*first, *last) of n_out.
void window_outputs(const struct graph_window *w, int dim, uint32_t k, uint32_t n_in,
                    uint32_t n_out, uint32_t *first, uint32_t *last);
