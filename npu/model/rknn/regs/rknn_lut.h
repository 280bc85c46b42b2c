// The lookup table that a node's tasks load, and how it is continued.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// Fills *ret from `pool`, but for the way out of the table. STATUS_MODEL_INVALID: there is none,
/// or it does not cover the usual range.
int rknn_lut_new(const struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
                 struct pool *pool, struct graph_lut **ret, struct error *e);

/// Whether bounds behind the table (lowest and highest) would change what comes out of it.
bool rknn_lut_is_cut(const struct graph_lut *lut, const int32_t bounds[2]);
