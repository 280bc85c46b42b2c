// Nodes between DequantizeLinear and QuantizeLinear become nodes on 8-bit numbers.
//
// The numbers of a quantized tensor live in an int8 one: INT8, with one scale and zero point,
// rounds_before_zp. Unsigned numbers are stored smaller by 128: the same sums. A new list of nodes
// is made in which int8 tensors stand beside the file's own; what nobody reads then is dropped
// later.
#pragma once

#include "npu/model/onnx/onnx_lower.h"

struct qdq_form {
    float scale;
    int32_t zp; // of the stored, signed numbers
    bool counts_from_0;
};

struct qdq {
    struct onnx_lowering *l;
    struct graph *g;
    size_t room;              // tensors that the arrays have room for
    int32_t *producer;        // of each tensor: a node of the graph; -1: none
    uint32_t *n_reads;        // outputs of the model count as one
    uint32_t *reader;         // of each tensor: the last node that reads it
    int32_t *source;          // of each tensor: the int8 one that has its numbers; -1: none
    const int8_t **map;       // of each int8 tensor: the table that made it; NULL: none did
    int32_t *map_source;      // what that table was applied to
    struct graph_node *nodes; // the new list
    uint32_t n_nodes, room_nodes;
};

// ---- the new list ----

/// A node that is called as `like`. NULL with words when memory is short.
struct graph_node *qdq_emit(struct qdq *q, enum graph_op op, const struct graph_node *like,
                            const int32_t *in, uint32_t n_in, const int32_t *out, uint32_t n_out,
                            struct error *e);

/// An int8 tensor of the shape of another. Negative: an error.
int32_t qdq_int8(struct qdq *q, int32_t like, struct qdq_form form, struct error *e);

/// Emits a table between tensors of 8 bits. Where x is such a table's result already, the two
/// become one of what x was made of.
int qdq_emit_map(struct qdq *q, const struct graph_node *like, const int8_t *table, int32_t x,
                 int32_t y, struct error *e);

/// A table between the file's own bytes and an int8 tensor of the same numbers, either way.
int qdq_emit_as_stored(struct qdq *q, const struct graph_node *like, int32_t x, int32_t y,
                       struct error *e);

// ---- what is there ----

/// The node that makes `tensor`, where nobody else reads that; else NULL.
const struct graph_node *qdq_sole_source(const struct qdq *q, int32_t tensor);

static inline struct qdq_form qdq_form_of(const struct qdq *q, int32_t int8)
{
    const struct graph_tensor *t = &q->g->tensors[int8];
    return (struct qdq_form){t->scale, t->zp, t->counts_from_0};
}

static inline bool qdq_same_form(struct qdq_form a, struct qdq_form b)
{
    return a.scale == b.scale && a.zp == b.zp;
}

/// Element i of an integer constant.
int64_t qdq_whole_number(const struct graph_tensor *t, uint64_t i);

/// Whether the file has a tensor's numbers, and as they are: none that a run computes, no packed
/// ones.
bool qdq_is_known(const struct graph_tensor *t);

/// NULL: the tensor is no dequantized constant.
const struct onnx_origin *qdq_origin(const struct qdq *q, int32_t tensor);

// ---- nodes on int8 tensors (onnx_qdq_nodes.c, onnx_qdq_tables.c, onnx_qdq_products.c) ----
// 1: emitted, and *ret is the int8 result. 0: that cannot be done. Negative: an error.

/// What quantizing the real numbers `x` to `form` gives.
int qdq_quantized(struct qdq *q, int32_t x, struct qdq_form form, int32_t *ret, struct error *e);

/// The same, where `x` is a chain of functions of the numbers of one int8 tensor: a table.
int qdq_table(struct qdq *q, int32_t x, struct qdq_form form, int32_t *ret, struct error *e);

/// The int8 tensor `x` in another form, by a table that is called as `node`; x where it has that.
int qdq_requantized(struct qdq *q, int32_t x, struct qdq_form form, const struct graph_node *node,
                    int32_t *ret, struct error *e);

/// A convolution or a product of matrices, whose output is int8.
int qdq_product(struct qdq *q, const struct graph_node *n, int32_t like, struct qdq_form form,
                int32_t *ret, struct error *e);

/// A product of matrices whose output `n` itself names: real numbers.
int qdq_real_product(struct qdq *q, const struct graph_node *n, struct error *e);

/// A node that only moves elements, and then dequantizes them.
int qdq_moved(struct qdq *q, const struct graph_node *n, struct error *e);
