// The DPU's units where it computes with fp16.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each task in fp16 of a convolution, an addition or a node that moves elements (these may
/// go as int16, too) has its units as such nodes have them in files. STATUS_MODEL_INVALID, with the
/// register's name: one has not.
int rknn_real_known(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_node *n, struct error *e);

/// Whether each task of an exDataConvert of bytes makes them (x - zero point) * scale, as its input
/// says, or of halves such bytes, or that of a Cast x, and no bound cuts anything off. Of RK3576's
/// generation and RK3566's, and of Casts of RK3588, as files have them. STATUS_MODEL_INVALID, with
/// the register's name: one does not, or it is another chip's.
int rknn_convert_known(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, struct error *e);
