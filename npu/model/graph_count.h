// How large a graph is, whatever runs it.
#pragma once

#include "npu/model/graph.h"

struct graph_count {
    uint64_t macs;       // multiply-accumulates of convolutions and products of matrices
    uint64_t parameters; // elements of the constants that nodes take
};

int graph_count(const struct graph *g, struct graph_count *ret, struct error *e);
