// Which operator of the executor computes which nodes: the table GRAPH_OPS in graph.h.
#pragma once

#include "npu/sim/exec/step.h"

extern const struct op *const ops[GRAPH_OP_COUNT];

/// Those that compute a node instead where its output is an int8 tensor of ONNX (graph_tensor.
/// rounds_before_zp), with ONNX Runtime's arithmetic (ort_int8.h). NULL: the same as ops.
extern const struct op *const ops_ort_int8[GRAPH_OP_COUNT];

#define X(symbol, kernel, cost, batch) extern const struct op kernel;
GRAPH_OPS(X)
#undef X
extern const struct op op_ort_int8_binary, op_ort_int8_softmax, op_attention, op_lrn, op_recurrent,
    op_choose, op_cast, op_index, op_reduce, op_quantize_bytes, op_trilu, op_arcs, op_linear;

/// Whether op_attention computes a node of GRAPH_REF.
bool op_attention_fits(const struct graph *g, const struct graph_node *n);
/// The same of op_linear and GRAPH_MAT_MUL.
bool op_linear_fits(const struct graph *g, const struct graph_node *n);
/// The same of op_lrn.
bool op_lrn_fits(const struct graph *g, const struct graph_node *n);

/// The same of op_recurrent, op_choose, op_cast, op_index, op_reduce, op_quantize_bytes, op_trilu
/// and op_arcs.
bool op_recurrent_fits(const struct graph *g, const struct graph_node *n);
bool op_choose_fits(const struct graph *g, const struct graph_node *n);
bool op_cast_fits(const struct graph *g, const struct graph_node *n);
bool op_index_fits(const struct graph *g, const struct graph_node *n);
bool op_reduce_fits(const struct graph *g, const struct graph_node *n);
bool op_quantize_bytes_fits(const struct graph *g, const struct graph_node *n);
bool op_trilu_fits(const struct graph *g, const struct graph_node *n);
bool op_arcs_fits(const struct graph *g, const struct graph_node *n);
