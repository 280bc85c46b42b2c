// The chip's lookup table for activations (struct graph_lut).
#pragma once

#include "npu/model/graph.h"

float lut_value(const struct graph_lut *lut, float v);
