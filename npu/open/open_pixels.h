// What the chip does to packed pixels before a convolution takes them: a converter in front of it,
// whose registers the first programs set.
#pragma once

#include "npu/model/rknn/program/rknn_program.h"
#include "npu/open/open_layout.h"

/// Sets layout->flipped for a model's input of pixels. STATUS_MODEL_INVALID when its programs
/// convert them to something else: then memory has to hold pixels as they were before mean and
/// deviation.
int open_pixels_read(const struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                     struct open_layout *layout, struct error *e);
