// Values of inputs and dumped tensors, as floats.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rknnd.h"
#include "tensor/observe/observer.h"

struct quant_values {
    const float *values;
    float *own; // free() it
    uint64_t n;
    uint32_t n_channels; // 0: there are none
    uint64_t inner;      // elements between two of neighbouring channels
};

/// An input as a program has set it. `attr`: as the model has it.
int quant_values_of_input(const rknn_input *input, const rknn_tensor_attr *attr,
                          struct quant_values *ret, struct error *e);

/// A dumped tensor, which outlives *ret.
int quant_values_of_tensor(const rknnd_tensor *t, struct quant_values *ret, struct error *e);

/// Adds to `o` what a node of a server would tell of them, with about `most` values.
int quant_values_count(const struct quant_values *v, bool sums, bool tails, uint32_t most,
                       struct observer *o, struct error *e);
