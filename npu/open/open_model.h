// A .rknn file, loaded for an NPU: programs, constants in the NPU's memory (shared by all
// contexts), and the nodes that a CPU computes.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/program/rknn_layout.h"
#include "npu/model/rknn/program/rknn_program.h"
#include "npu/npu.h"
#include "npu/open/open_cuts.h"
#include "npu/open/provider/provider.h"
#include "npu/sim/sim_nodes.h"

// What is done for a node.
enum open_step {
    OPEN_NOTHING, // an end of the graph, or another view of the same memory
    OPEN_NPU,
    OPEN_CPU,
};

// A command that takes the address of this byte of a tensor.
struct open_port_patch {
    uint64_t command, offset;
};

// A command, and what it holds instead where the chip is to take 128 off of each byte.
struct open_port_flip {
    uint64_t command;
    uint32_t value;
};

// A tensor that this process reads or writes.
struct open_port {
    uint32_t tensor;
    struct rknn_memory_layout layout;
    size_t dense; // bytes of one input of a batch, packed
    // Of the model's inputs and outputs alone: what has to be changed for it to lie outside the
    // arena, and why it cannot (NULL: it can). direct_port.h
    struct open_port_patch *patches;
    uint64_t n_patches;
    const char *why;
    uint32_t batch; // inputs of a batch, which programs have one behind the other
    // An input's values of this type are what the NPU reads; or what it would read with these
    // commands changed (none: it cannot). direct_pixels.h
    bool same[TENSOR_TYPE_COUNT], same_flipped[TENSOR_TYPE_COUNT];
    struct open_port_flip *flips;
    uint64_t n_flips;
};

struct imports; // npu/open/direct/imports.h

struct npu_model {
    struct provider *provider;
    struct imports *imports; // the device's; NULL: tensors are always copied
    const struct chip *chip;
    struct pool pool; // of what follows
    struct rknn_file file;
    struct rknn_file single; // the same without rknn_batch_size: what `graph` is made of
    struct rknn_program program;
    struct open_cuts cuts;
    atomic_uint *node_us;    // of each node: what it took last, about; 0: not known. For slices
    enum open_step *steps;   // of each node
    const char **unable;     // of each node: why the provider cannot run its tasks, or NULL
    struct sim_node **nodes; // of each node that a CPU computes; else NULL
    struct graph graph;      // whose only nodes are those
    uint32_t *graph_nodes;   // of each file node that a CPU computes: its number in the graph
    struct open_port *inputs, *outputs;
    struct provider_memory *constants;
    struct npu_model_info info;
};

static inline uint64_t open_port_offset(const struct npu_model *m, const struct open_port *port)
{
    return m->program.places[port->tensor].offset;
}
