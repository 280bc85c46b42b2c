// The register commands of one node, as the registers' values.
#pragma once

#include "npu/model/rknn/rknn_file.h"

#define RKNN_REGS       16384 // registers are numbered in steps of four
#define RKNN_LUT_POINTS 513

// Zeroed before the first load; used again for one node after the other.
struct rknn_regs {
    uint32_t value[RKNN_REGS];
    uint32_t owner[RKNN_REGS]; // value is valid for the load of this number
    int32_t tensor[RKNN_REGS]; // whose address the value is relative to; -1: it is no address
    uint32_t load;
};

/// Takes the commands of the node's tasks. The first value written to a register stays: later tasks
/// only work on other parts of the same tensors.
void rknn_regs_load(struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n);

bool rknn_regs_get(const struct rknn_regs *regs, uint32_t reg, uint32_t *ret);

/// The tensor that an address register points into; -1: it is not set, or the file does not say.
int32_t rknn_regs_tensor(const struct rknn_regs *regs, uint32_t reg);

/// Whether tables are said to lie where they usually do, or nothing is said. Of RK3566, RK3568 and
/// RK3588.
bool rknn_regs_lut_range(const struct rknn_regs *regs);

/// The two tables (for negative and positive values) that the node's tasks load. False: it loads
/// none, or not both whole.
bool rknn_regs_lut(const struct rknn_file *f, const struct rknn_node *n,
                   int16_t ret[2][RKNN_LUT_POINTS]);
