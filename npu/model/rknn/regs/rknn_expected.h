// What the registers of an integer convolution must hold where nothing reads them: units that are
// off, fields that say what others say too. Each value is the one that files have.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_stages.h"

/// `lut` NULL: the convolution has no table. STATUS_MODEL_INVALID, with the register's name: it
/// holds something else.
int rknn_expected(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                  const struct graph_lut *lut, struct error *e);

/// What the registers of a lookup table must hold, of work in memory, too.
int rknn_expected_table(const struct rknn_regs *regs, struct error *e);
