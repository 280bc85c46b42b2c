// Sizes and places of tasks, as their tensors have them: what the checks of convolutions and of
// work on memory have in common.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Refuses a register that does not fit the tensors, with its name, unless it is `right`. One that
/// the node never sets is not looked at: what it holds is not this node's.
int rknn_fit(const struct rknn_regs *regs, const struct rknn_state *task, enum rknn_register reg,
             bool right, struct error *e);

/// Bytes of an atom: one pixel of one block of channels.
uint32_t rknn_fit_atom(const struct rknn_regs *regs);

/// Whether a plane of so many pixels has `bytes`: as it is, or in whole fours of atoms.
bool rknn_fit_plane(const struct rknn_regs *regs, uint64_t pixels, uint64_t bytes);

/// The same of a tensor whose plane it is: four atoms are filled up but in inputs of the model and
/// in single pixels. Where all channels are in one block, nothing lies behind the plane, and either
/// will do.
bool rknn_fit_own_plane(const struct rknn_regs *regs, uint64_t pixels, uint64_t bytes,
                        bool of_input, bool single);

/// The same of a tensor in blocks of channels.
bool rknn_fit_plane_of(const struct rknn_regs *regs, const struct rknn_tensor *t, uint64_t bytes);

/// Bytes of a distance that a register of the DPU or its RDMA has, which counts atoms on RK3576,
/// RV1126B and RK3562.
uint64_t rknn_fit_bytes(const struct rknn_regs *regs, const struct rknn_state *task,
                        enum rknn_register reg);

/// Whether n is `of`, or `of` in whole blocks of some size up to 64: the last block of channels may
/// be stored as if it was full.
bool rknn_fit_blocks(uint64_t n, uint64_t of);

/// How many lines CNA_LINE_STRIDE goes on by, in CNA_CONV_CON1: four, or one, as a bit says; of
/// RK3566 and RK3568 one.
uint32_t rknn_fit_stride_lines(const struct rknn_regs *regs, uint32_t kind);

/// Of RK3562 in container 2, by CNA_CONV_CON1: whether a task makes twice its lines of packed
/// pixels, the lower half behind the upper one, as if that were the next block of channels.
bool rknn_fit_halves(const struct rknn_regs *regs, uint32_t kind);
