// exDataConvert and Cast: bytes become halves.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each task of an exDataConvert of bytes makes them (x - zero point) * scale, as its input
/// says, or that of a Cast x, and no bound cuts anything off. Of RK3576's generation and RK3566's,
/// and of Casts of RK3588, as files have them; others are not looked at. STATUS_MODEL_INVALID, with
/// the register's name: one does not.
int rknn_convert_known(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, struct error *e);
