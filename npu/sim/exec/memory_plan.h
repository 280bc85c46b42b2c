// Where each tensor is in the arena, the one block of memory that all intermediate results share.
//
// A tensor is needed from the step that writes it to the last one that reads it: its live range.
// Two tensors may have the same bytes if their live ranges do not overlap, or if one is the input
// and the other the output of a step that works in place. Tensors stay where the model's file has
// them as long as this holds; the others are placed largest first, each at the lowest offset that
// is free during its live range. Tested by test_sim_memory_plan on random graphs.
//
//   offset ^  [ A      ][ C      ]        A, B, C: tensors; a box: the live range and the bytes
//          |      [ B         ]
//          +--------------------> step
#pragma once

#include "npu/sim/exec/step.h"

/// Fills p->offsets and p->arena_size. A tensor whose bytes in the file overlap those of one that
/// is needed at the same time (chips share memory in ways that kernels here cannot) is placed as
/// one that has none. Refuses a graph that reads what nothing has written.
int memory_plan_make(struct plan *p, struct error *e);

/// Calls back for each tensor in the arena of a plan: its offset is p->offsets[tensor].
/// `from` is the step that writes it (-1: it is an input), `to` the last one that reads it
/// (n_steps: it is an output).
int memory_plan_visit(const struct plan *p,
                      void (*visit)(void *user, uint32_t tensor, int32_t from, int32_t to),
                      void *user, struct error *e);
