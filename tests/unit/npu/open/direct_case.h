// One model, with its inputs and outputs copied and in dma-bufs, in each form that may be the
// NPU's.
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct direct_counts {
    unsigned inputs, outputs; // that at least one form leaves in the dma-buf
    unsigned pixels;          // inputs that are left there as uint8, NHWC
    bool only_pixels;         // no other form is tried
    bool print;               // what is copied, and why
};

/// Negative: a run failed. Fails the test where a run with dma-bufs differs from one without, or
/// touches what is not its own.
int direct_case_run(const char *options, const char *path, struct direct_counts *counts,
                    struct error *e);
