// Where each tensor lives: the file's own places, as long as they hold what the executor puts
// there, else places that tensors which are not needed at the same time share.
#pragma once

#include "npu/sim/plan.h"

/// Fills p->places and p->arena_size. A tensor whose place in the file overlaps one that is needed
/// at the same time (chips share memory in ways that kernels here cannot) is placed as one that has
/// none. Refuses a graph that reads what nothing has written.
int places_choose(struct plan *p, struct error *e);
