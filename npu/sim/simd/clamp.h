// Activations that are no more than bounds: ReLU, ReLU6, Clip.
#pragma once

#include "npu/model/graph.h"

// y = min(max(x, low), high), low for NaN. Infinite bounds: nothing is done, and NaN stays NaN.
struct clamp_bounds {
    float low, high;
};

/// True when the activations are such bounds.
bool clamp_bounds(const struct graph_post *posts, uint32_t n_posts, struct clamp_bounds *ret);
