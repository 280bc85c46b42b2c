// What the converter was told: a text with the attributes of inputs and outputs.
#pragma once

#include "npu/model/rknn/rknn_file.h"

/// Refuses files whose text asks for what is not known here, or says something else than their
/// tables: dynamic shapes, attributes that no file had.
int rknn_build_check(const struct rknn_file *f, struct error *e);
