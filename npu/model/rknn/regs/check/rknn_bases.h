// Where a convolution's tasks read and write, in files whose commands say it.
#pragma once

#include "npu/model/rknn/regs/rknn_agree.h"

/// Of container 0x1004, of which RV1103's and RV1106's files are: whether each task begins to write
/// at a line of a block of its output's channels, and reads the image, the weights and the biases
/// that belong to it. STATUS_MODEL_INVALID, with the register's name.
int rknn_bases_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct rknn_agree_conv *c, struct error *e);
