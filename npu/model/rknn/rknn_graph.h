// Turns a .rknn file into a graph that the executor runs.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

/// The graph points into the file and into `f`: both must outlive it. Refuses whatever is not
/// understood, naming the node and the reason. On failure g is empty.
int rknn_graph(struct graph *g, const struct rknn_file *f, const struct chip *chip,
               struct error *e);

// Which nodes become nodes of the graph, and how.
struct rknn_graph_choice {
    const bool *wanted; // only those for which it has true; tensors of all are described. NULL: all
    // With programs (graph.h), nodes of the NPU that are not understood become GRAPH_PROGRAM, and
    // so do those for which `by_program` has true (NULL: no others).
    const struct graph_programs *programs;
    const bool *by_program;
    bool strict; // … these alone: what is not understood is refused
};

int rknn_graph_of(struct graph *g, const struct rknn_file *f, const struct chip *chip,
                  const struct rknn_graph_choice *choice, struct error *e);
