// exDataConvert: bytes become halves.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each task of an exDataConvert of bytes makes them (x - zero point) * scale, as its input
/// says, and no bound cuts anything off. RK3576's generation and RK3566's, which files have; others
/// are not looked at. STATUS_MODEL_INVALID, with the register's name: one does not.
int rknn_convert_known(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, struct error *e);
