// What each layer of a graph is called, and what it would cost on the chip.
#pragma once

#include "npu/model/graph.h"
#include "npu/npu.h"
#include "tensor/chip.h"

/// One entry for each node, in order, with everything but the times; strings and array are in
/// `pool`.
int sim_layers(const struct graph *g, const struct chip *chip, struct pool *pool,
               struct npu_layer **ret, struct error *e);
