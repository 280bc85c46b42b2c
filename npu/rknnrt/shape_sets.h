// The shapes that inputs of a model may have together.
#pragma once

#include "npu/npu.h"
#include "npu/rknnrt/rknnrt_query.h"

/// Fills n_inputs, n_outputs, n_shape_sets, inputs and outputs of `info` from an open context,
/// whose shapes are those of the last shape set afterwards. On failure too the caller frees both
/// lists.
int rows_query(const struct runtime *r, rknn_context c, struct npu_model_info *info,
               struct error *e);

/// Chooses a shape set of a model that has more than one.
int shape_sets_choose(const struct runtime *r, rknn_context c, const struct npu_model_info *info,
                      uint32_t shape_set, struct error *e);
