// What stands out in an output: its largest elements, its range.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "rknn_api.h"

struct value {
    uint64_t index; // of the element, row-major
    float value;
};

struct value_range {
    float min, max;
    double mean;
    uint64_t n_nan; // left out of the others, which are 0 when nothing else is there
};

/// The `n_top` largest of n values, largest first, the lower index first among equals; NaNs left
/// out. Returns how many there are.
size_t values_top(const float *values, uint64_t n, struct value *top, size_t n_top);

struct value_range values_range(const float *values, uint64_t n);
