// Which tensors of a model become int8, and which of them have one scale.
#pragma once

#include "quant/model/quant_index.h"

enum quant_kind {
    QUANT_NODE_FLOAT,   // computes with real numbers
    QUANT_NODE_PRODUCT, // has an int8 weight: Conv, Gemm, MatMul, ConvTranspose
    QUANT_NODE_VALUE,   // computes int8 from int8: Add, Mul, pools, activations
    QUANT_NODE_MOVE,    // moves elements, or chooses among them: one scale for all of its tensors
    QUANT_NODE_FUSED,   // an activation of the node before it: nothing is stored in between
};

struct quant_place {
    bool quantized;
    bool observed;  // its values are looked at: others of its group are among them
    uint32_t group; // the edge that stands for all that have one scale
};

struct quant_plan {
    uint32_t n_nodes, n_edges;
    uint8_t *kinds;             // enum quant_kind, of each node
    const char **reasons;       // why a node is not quantized; NULL: it is, or never could be
    struct quant_place *places; // of each edge of the index
};

struct quant_plan_options {
    bool fuse_activations;
    const char *const *floats; // names of nodes, or of their outputs, that are to stay float
    size_t n_floats;
};

/// quant_plan_done() also after a failure. Refuses models that are quantized already, models
/// without anything to quantize, and names in `floats` that the model does not have.
int quant_plan_make(struct quant_plan *p, const struct quant_model *m, const struct quant_index *x,
                    const struct quant_plan_options *options, struct error *e);
void quant_plan_done(struct quant_plan *p);

/// Of a product: the axis of its weight that outputs lie on.
uint32_t quant_plan_axis(const Quant__Node *n, const Quant__Tensor *weight);

static inline struct quant_place *quant_plan_place(const struct quant_plan *p,
                                                   const struct quant_index *x,
                                                   const struct quant_edge *edge)
{
    return edge ? &p->places[edge - x->edges] : NULL;
}
