// What the chip does to packed pixels before a convolution takes them: a converter in front of it,
// whose registers the first programs set. By mean, deviation and scale it would make what a model
// stores of pixels; that is done before a run, as for all other inputs, so that the converter is
// left the one thing that memory of pixels asks for: bytes from 0 on become those from -128 on.
#pragma once

#include "npu/model/rknn/program/rknn_layout.h"
#include "npu/model/rknn/program/rknn_program.h"

/// Sets layout->flipped for a model's input of pixels, and the converters of the programs that read
/// it to -128; their addresses become those of lines that lie as the layout says.
/// STATUS_MODEL_INVALID when they are not known well enough: such programs are not to be run.
int rknn_pixels_set(struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                    struct rknn_memory_layout *layout, struct error *e);
