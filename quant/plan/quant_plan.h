// Which tensors of a model become integers, of how many bits, and which of them have one scale.
#pragma once

#include "quant/model/quant_index.h"

enum quant_kind {
    QUANT_NODE_FLOAT,   // computes with real numbers
    QUANT_NODE_PRODUCT, // has an integer weight: Conv, Gemm, MatMul, ConvTranspose
    QUANT_NODE_VALUE,   // computes integers from integers: Add, Mul, pools, activations
    QUANT_NODE_MOVE,    // moves elements, or chooses among them: one scale for all of its tensors
    QUANT_NODE_FUSED,   // an activation of the node before it: nothing is stored in between
};

struct quant_place {
    bool quantized;
    uint8_t bits;   // 8 or 16: the least of the nodes that make and read it
    bool observed;  // its values are looked at: others of its group are among them
    uint32_t group; // the edge that stands for all that have one scale
};

struct quant_plan {
    uint32_t n_nodes, n_edges;
    uint8_t *kinds;             // enum quant_kind, of each node
    uint8_t *bits;              // of each node that is not float
    const char **reasons;       // why a node is not quantized; NULL: it is, or never could be
    struct quant_place *places; // of each edge of the index
};

// What a layer was asked to be.
struct quant_choice {
    const char *name; // of a node, or of one of its outputs
    uint8_t bits;     // 8, 16; 0: float
};

struct quant_plan_options {
    bool fuse_activations;
    uint8_t bits;                       // of all that is not chosen
    const struct quant_choice *choices; // the last one of a node counts
    size_t n_choices;
};

/// quant_plan_done() also after a failure. Refuses models that are quantized already, models
/// without anything to quantize, and names in `choices` that the model does not have.
int quant_plan_make(struct quant_plan *p, const struct quant_model *m, const struct quant_index *x,
                    const struct quant_plan_options *options, struct error *e);
void quant_plan_done(struct quant_plan *p);

/// Refuses models that are quantized already, of any operator set.
int quant_plan_check_float(const struct quant_model *m, struct error *e);

/// Of a product: the axis of its weight that outputs lie on.
uint32_t quant_plan_axis(const Quant__Node *n, const Quant__Tensor *weight);

static inline struct quant_place *quant_plan_place(const struct quant_plan *p,
                                                   const struct quant_index *x,
                                                   const struct quant_edge *edge)
{
    return edge ? &p->places[edge - x->edges] : NULL;
}
