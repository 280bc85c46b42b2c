// The largest stored elements of several taps (pool_join.c), with AVX2 and more.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

#define POOL_FIRST_TAPS 5 // that are joined at once, at most

// y[p][c] = the largest of taps[k][p * x_step + c], k from 0 on, as
// `largest > next ? largest : next` has it; x_step is in elements.
struct pool_taps {
    void *y; // pixels behind each other
    const void *taps[POOL_FIRST_TAPS];
    uint32_t n; // 2, 3 or POOL_FIRST_TAPS
    size_t x_step, pixels, channels;
};

/// False, and nothing is done: there are no such vectors, or the channels do not fill one. `type`:
/// int8, fp16 or float32. Any thread.
bool pool_first_taps(enum tensor_type type, const struct pool_taps *t);
