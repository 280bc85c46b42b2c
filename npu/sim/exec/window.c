// Windows that move over images.
#include "npu/sim/exec/window.h"

// Tap k of output o reads input o * stride + k * dilation - pad. Solved for 0 <= input < n_in this
// gives outputs [first, last): with start = k * dilation - pad, o >= ceil(-start / stride) and o <=
// floor((n_in - 1 - start) / stride). Kernels loop over these and need no test per element.
void window_outputs(const struct graph_window *w, int dim, uint32_t k, uint32_t n_in,
                    uint32_t n_out, uint32_t *first, uint32_t *last)
{
    int64_t start = (int64_t)k * w->dilation[dim] - w->pad[dim], stride = w->stride[dim];
    int64_t low = start < 0 ? (-start + stride - 1) / stride : 0;
    int64_t high = n_in > start ? (n_in - 1 - start) / stride + 1 : 0;
    high = high > n_out ? n_out : high;
    *first = (uint32_t)(low < high ? low : high);
    *last = (uint32_t)high;
}
