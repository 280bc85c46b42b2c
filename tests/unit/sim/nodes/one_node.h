// A graph of one node, for tests that choose its tensors and hold what it computes against loops.
#pragma once

#include "npu/model/graph.h"

/// Makes n, whose operator is set, the node of *ret. Its inputs, 7 at most, are the first tensors,
/// which are the graph's too; its only output is the one behind them.
static inline void one_node_graph(struct graph *ret, struct graph_tensor *tensors,
                                  struct graph_node *n, uint32_t n_inputs)
{
    static const int32_t of_node[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint32_t of_graph[] = {0, 1, 2, 3, 4, 5, 6, 7};
    n->name = "n";
    n->inputs = of_node;
    n->n_inputs = n_inputs;
    n->outputs = of_node + n_inputs;
    n->n_outputs = 1;
    *ret = (struct graph){.n_tensors = n_inputs + 1,
                          .n_nodes = 1,
                          .n_inputs = n_inputs,
                          .n_outputs = 1,
                          .tensors = tensors,
                          .nodes = n,
                          .inputs = of_graph,
                          .outputs = of_graph + n_inputs};
}
