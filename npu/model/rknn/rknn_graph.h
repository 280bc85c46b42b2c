// Turns a .rknn file into a graph that the executor runs.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

/// The graph points into the file and into `f`: both must outlive it. Refuses whatever is not
/// understood, naming the node and the reason. On failure g is empty.
int rknn_graph(struct graph *g, const struct rknn_file *f, const struct chip *chip,
               struct error *e);

/// The same with those nodes alone for which `wanted` has true, as the only ones of the graph; all
/// tensors that nodes compute are described. NULL: all nodes.
int rknn_graph_of(struct graph *g, const struct rknn_file *f, const struct chip *chip,
                  const bool *wanted, struct error *e);
