// What the readers need an executor for while they load a file. Nodes of constants are computed and
// tables of 8-bit numbers are filled with the arithmetic that would otherwise run, so a model that
// was folded gives the same results as one that was not.
#pragma once

#include "npu/model/graph.h"

struct graph_executor {
    /// Runs a graph that consists of one node. `x`: elements of its first input (not looked at if
    /// the node has none). results[i]: where the elements of output i go, NULL where it has none.
    /// All are packed, in the order of the dimensions. Refuses what cannot be executed.
    int (*run_node)(const struct graph *g, const void *x, void *const *results, struct error *e);

    /// Applies a function (not POST_ADD) to n real numbers in place.
    void (*apply)(const struct graph_post *post, float *x, size_t n);

    /// y = a * b, element by element, of stored 8-bit numbers in the forms of three tensors.
    void (*multiply)(const struct graph_tensor *forms[3], const int8_t *a, const int8_t *b,
                     int8_t *y, size_t n);
};
