// Custom operators: which nodes of a graph a program may compute, and the exchange of their data.
#pragma once

#include "npu/npu.h"
#include "npu/sim/exec/step.h"

/// The nodes of a .rknn file that its compiler left to the CPU, and those that only a program or a
/// plugin can compute, described in memory of the graph's pool; numbers them (graph_node.custom).
/// Refuses nodes of the second kind that cannot be described.
int sim_custom_nodes(struct graph *g, const struct custom_node **ret, uint32_t *ret_n,
                     struct error *e);

/// A hook before steps (run.before): lets the struct npu_custom `custom` compute the step if it
/// wants to: 1; 0: it does not.
int sim_custom(void *custom, const struct run *r, const struct step *s, struct error *e);
