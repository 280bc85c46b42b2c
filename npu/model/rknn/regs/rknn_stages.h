// What is between the sums of an integer convolution and its outputs: the units of the DPU, as
// the node's registers set them up.
//
//     t = (sum >> sum_shift) + bias[c] + nz[c] * S          S: sum of the window's inputs
//     v = t * mul[c] >> bs_shift                            shifts of negative values are their own
//     w = v * bn_factor >> bn_shift                         or of negative values alone (LeakyRelu)
//     x = w + ((addend + addend_offset) * addend_factor >> addend_shift)
//     y = x * out_scale >> out_shift, + out_offset
//
// Everything in these registers is either taken, or known to be without effect, or refused.
#pragma once

#include "npu/model/rknn/lower/rknn_weights.h"
#include "npu/model/rknn/regs/rknn_commands.h"

struct rknn_conv_sources {
    const struct rknn_file *file;
    const struct rknn_node *node;
    const struct chip *chip;
    const struct rknn_regs *regs;
    const struct rknn_packing *packing;
    const struct rknn_tensor *weight, *bias, *output; // bias NULL: there is none
};

struct rknn_stages {
    uint32_t sum_shift;
    bool nz_in_table, mul_in_table; // else nz and mul serve all channels
    int16_t nz, mul;
    uint32_t bs_shift, bs_shift_negative;
    enum { BN_OFF, BN_ALL, BN_NEGATIVES } bn; // what the factor multiplies; shifts are for all
    int16_t bn_factor;
    uint32_t bn_shift, bn_shift_negative;
    int32_t bounds[2]; // lowest and highest behind BN
    bool has_addend;   // else an operand of EW, if there is one, is not understood
    int32_t addend_offset;
    int16_t addend_factor;
    uint32_t addend_shift;
    int32_t sum_bounds[2]; // behind the addition
    uint32_t out_scale, out_shift;
    int32_t out_offset;
};

/// STATUS_MODEL_INVALID: a register is missing, or holds what is not understood.
int rknn_stages_read(const struct rknn_conv_sources *s, struct rknn_stages *ret, struct error *e);
