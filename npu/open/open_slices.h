// Where a run lends the NPU to others: between two rows of nodes that take about as long as a
// slice, by what they took before, and between the tasks of a node that takes longer.
#pragma once

#include "npu/open/open_model.h"

// The nodes of a segment, of which others may have any place between.
struct open_slice {
    uint32_t n; // nodes; 0: what follows says nothing
    uint32_t first, last;
    uint64_t us; // that they take, as far as that is known
    bool known;  // of all
};

/// One more node.
void open_slices_add(struct open_slice *s, const struct npu_model *m, uint32_t node);

/// Whether the segment is to end in front of `node`, which the NPU computes next on `schedule`.
bool open_slices_full(const struct open_slice *s, const struct npu_model *m, uint32_t node,
                      const struct rknn_schedule *schedule, const struct npu_slices *slices);

/// Whether `node`, whose tasks one core does, is longer than a slice, and is to be done in parts:
/// alone, each of them a segment.
bool open_slices_divide(const struct npu_model *m, uint32_t node,
                        const struct rknn_schedule *schedule, const struct npu_slices *slices);

/// How many of such a node's tasks the next part has, behind the first `done`.
uint32_t open_slices_part(const struct npu_model *m, uint32_t node, const struct rknn_range *tasks,
                          uint32_t done, const struct npu_slices *slices);

/// All parts of it took `us`.
void open_slices_divided(const struct npu_model *m, uint32_t node, uint64_t us);

/// It took `us`; the next one begins.
void open_slices_took(struct open_slice *s, const struct npu_model *m, uint64_t us);
