// The nodes of a graph in an order in which each comes behind those that make what it reads. ONNX
// asks for that, but converters that add nodes at the end of the list are common.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// Names of tensors; "" or NULL: left out.
struct order_node {
    const char *const *inputs, *const *outputs;
    uint32_t n_inputs, n_outputs;
};

/// order[i]: which of the n nodes is the i-th one, from the caller's memory. A node stays where it
/// is unless one before it reads what it makes: then it moves right before that one, with all that
/// it needs. *ret_moved: whether any does. Names that nothing makes are nobody's; of two nodes that
/// make one name the first counts; nodes that need each other in a circle are in some order.
/// Whoever reads the graph tells of all these. Takes time as the names are many.
int order_nodes(const struct order_node *nodes, uint32_t n, uint32_t *order, bool *ret_moved,
                struct error *e);
