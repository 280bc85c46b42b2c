// Where each tensor lives: the file's own places, as long as they hold what the executor puts
// there, else places that tensors which are not needed at the same time share.
#pragma once

#include "npu/sim/exec/step.h"

/// Fills p->offsets and p->arena_size. A tensor whose place in the file overlaps one that is needed
/// at the same time (chips share memory in ways that kernels here cannot) is placed as one that has
/// none. Refuses a graph that reads what nothing has written.
int memory_plan_make(struct plan *p, struct error *e);

/// Calls back for each tensor that lies in the arena of a plan: its place is p->offsets[tensor].
/// `from` is the step that writes it (-1: it is an input), `to` the last one that reads it
/// (n_steps: it is an output).
int memory_plan_visit(const struct plan *p,
                      void (*visit)(void *user, uint32_t tensor, int32_t from, int32_t to),
                      void *user, struct error *e);
