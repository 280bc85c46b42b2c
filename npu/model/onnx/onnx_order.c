// The order of 4-dimensional tensors in memory. Lowering takes all of them for images, channels
// last, which is how convolutions and the like work on them. Between products of matrices that
// would turn every head of an attention around: tensors keep the order of their dimensions where no
// operator of images reads or writes them.
//
//   Conv -> Add -> Relu -> Reshape        channels last up to the Reshape, which changes the order
//   Reshape -> Transpose -> MatMul -> …   the file's order
//
// Operators on each element, and others that are faster if all their tensors have one order, join
// them to a set (union by the smallest index); one tensor of images in it makes all of it such.
// Inputs and outputs of the model stay what programs were told that they are. Any order is right:
// tests are those of all networks.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"

enum order {
    ORDER_ANY,    // each of its tensors may have its own
    ORDER_ONE,    // all tensors of one shape, or of parts of it, have the same
    ORDER_IMAGES, // channels last
};

// Kernels for these have lines to walk along where all lie alike.
static bool ref_has_lines(uint32_t op)
{
    return op == REF_OP_WHERE || op == REF_OP_BINARY || op == REF_OP_UNARY || op == REF_OP_CAST ||
           op == REF_OP_CLIP;
}

static enum order order_of(const struct graph_node *n)
{
    switch (n->op) {
    case GRAPH_REF:
        return ref_has_lines(n->ref.op) ? ORDER_ONE : ORDER_ANY;
    case GRAPH_MAT_MUL:
    case GRAPH_RESHAPE:
    case GRAPH_TRANSPOSE:
    case GRAPH_GATHER:
    case GRAPH_GATHER_ELEMENTS:
    case GRAPH_TOP_K:
    case GRAPH_REDUCE_MEAN:
        return ORDER_ANY;
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
    case GRAPH_POW:
    case GRAPH_MAX:
    case GRAPH_MIN:
    case GRAPH_UNARY:
    case GRAPH_CONCAT:
    case GRAPH_SPLIT:
    case GRAPH_SLICE:
    case GRAPH_EXPAND:
    case GRAPH_SOFTMAX:
    case GRAPH_LOG_SOFTMAX:
    case GRAPH_CONVERT:
        return ORDER_ONE;
    default:
        return ORDER_IMAGES;
    }
}

// QuantizeLinear and DequantizeLinear, which onnx_qdq() may join with what is around them.
static bool order_is_kept(const struct graph_node *n)
{
    return n->op == GRAPH_REF && (n->ref.op == REF_OP_QUANTIZE || n->ref.op == REF_OP_DEQUANTIZE);
}

struct orders {
    struct graph *g;
    uint32_t *set; // of each tensor: another one of its set, with a smaller index, or itself
    bool *images;  // of each set's first tensor
};

static bool has_order(const struct graph *g, int32_t tensor)
{
    return tensor >= 0 && g->tensors[tensor].n_dims == 4 && !g->tensors[tensor].constant;
}

static uint32_t first_of(const struct orders *o, uint32_t tensor)
{
    while (o->set[tensor] != tensor)
        tensor = o->set[tensor] = o->set[o->set[tensor]];
    return tensor;
}

static void join(struct orders *o, uint32_t a, uint32_t b)
{
    a = first_of(o, a);
    b = first_of(o, b);
    uint32_t first = a < b ? a : b;
    o->images[first] = o->images[a] || o->images[b];
    o->set[a < b ? b : a] = first;
}

static void take_node(struct orders *o, const struct graph_node *n)
{
    enum order order = order_is_kept(n) ? ORDER_ONE : order_of(n);
    int32_t before = -1;
    for (uint32_t i = 0; i < n->n_inputs + n->n_outputs && order != ORDER_ANY; i++) {
        int32_t t = i < n->n_inputs ? n->inputs[i] : n->outputs[i - n->n_inputs];
        if (!has_order(o->g, t))
            continue;
        if (order == ORDER_IMAGES)
            o->images[first_of(o, (uint32_t)t)] = true;
        else if (before >= 0)
            join(o, (uint32_t)before, (uint32_t)t);
        before = t;
    }
}

static void take_ports(struct orders *o, const uint32_t *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        o->images[first_of(o, tensors[i])] = true;
}

int onnx_order(struct graph *g, struct error *e)
{
    size_t n = (size_t)g->n_tensors + 1;
    cleanup(free_p) uint32_t *set = calloc(n, sizeof *set);
    cleanup(free_p) bool *images = calloc(n, sizeof *images);
    struct orders o = {g, set, images};
    if (!set || !images)
        return error_no_memory(e, "the graph", n * sizeof *set);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        set[i] = i;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        take_node(&o, &g->nodes[i]);
    take_ports(&o, g->inputs, g->n_inputs);
    take_ports(&o, g->outputs, g->n_outputs);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (has_order(g, (int32_t)i) && !images[first_of(&o, i)])
            g->tensors[i].channels_last = false;
    return 0;
}
