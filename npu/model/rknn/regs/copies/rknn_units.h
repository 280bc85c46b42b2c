// The units behind a convolution that copies bytes.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// STATUS_MODEL_INVALID, with the register: a task's units do more with a sum than to take the
/// input's zero point off (the bias does) and to add the output's, which is the same.
int rknn_units_copy(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_state *s, int32_t zp, struct error *e);
