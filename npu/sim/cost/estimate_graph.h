// What a graph would cost on the chip: estimate.h and sram.h for its nodes and tensors. Graphs are
// ones that a plan could be made of, so that their nodes have what they need.
#pragma once

#include "npu/model/graph.h"
#include "npu/npu.h"
#include "npu/sim/cost/estimate.h"
#include "npu/sim/cost/sram_arena.h"

_Static_assert(NPU_MAX_CORES == ESTIMATE_MAX_CORES, "one number of cores");

struct estimate_memory {
    uint64_t weight_size;  // of all constants, as rknn_mem_size says it
    uint64_t weight_bytes; // of them that a run reads, each once
    struct sram_use use;   // with all of the chip's SRAM
};

/// Costs of all nodes, for one core; n_nodes layers, whose other members stay.
void estimate_layers(const struct graph *g, const struct chip *chip, struct npu_layer *layers);

/// Shares of the cores in core_mask in all layers, and the mask itself.
void estimate_shares(const struct graph *g, const struct chip *chip, uint32_t core_mask,
                     struct npu_layer *layers);

/// Nanoseconds of a layer as estimate_layers() and estimate_shares() have left it: as long as the
/// core with the largest share takes.
uint64_t estimate_layer_ns(const struct chip *chip, const struct npu_layer *layer);

/// Microseconds of one run on n_cores (1 … ESTIMATE_MAX_CORES): of all layers, one after the other.
double estimate_graph_us(const struct graph *g, const struct chip *chip, uint32_t n_cores);

int estimate_memory(const struct graph *g, const struct chip *chip, struct estimate_memory *ret,
                    struct error *e);

/// Calls back for each tensor in the internal memory, with its offset and the nodes that
/// write it and read it last.
int estimate_memory_plan(const struct graph *g,
                         void (*place_of)(void *user, const struct graph_tensor *t,
                                          const struct sram_tensor *where),
                         void *user, struct error *e);
