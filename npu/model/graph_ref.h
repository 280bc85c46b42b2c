// Reference operators: what a node of GRAPH_REF computes, as the readers say it and an executor
// does it. Each takes parameters as integers (graph_node.ref.ints) and real numbers (ref.reals),
// whose meaning is given below by operator.
#pragma once

#include <stdint.h>

#define REF_MAX_INPUTS  8
#define REF_MAX_OUTPUTS 4
#define REF_MAX_REALS   8
#define REF_MAX_LABELS  16 // of Einsum

// X(symbol, the executor's object)
// clang-format off
#define GRAPH_REF_OPS(X)                                                              \
    X(BINARY, ref_binary) X(UNARY, ref_unary) X(WHERE, ref_where) X(CLIP, ref_clip)   \
    X(CAST, ref_cast) X(REDUCE, ref_reduce) X(ARG_REDUCE, ref_arg_reduce)             \
    X(SOFTMAX, ref_softmax) X(HARDMAX, ref_hardmax) X(CUM_SUM, ref_cum_sum)           \
    X(TOP_K, ref_top_k) X(GATHER, ref_gather) X(GATHER_ELEMENTS, ref_gather_elements) \
    X(GATHER_ND, ref_gather_nd) X(SCATTER_ELEMENTS, ref_scatter_elements)             \
    X(SCATTER_ND, ref_scatter_nd) X(PAD, ref_pad) X(TILE, ref_tile)                   \
    X(TRILU, ref_trilu) X(LAYER_NORM, ref_layer_norm)                                 \
    X(INSTANCE_NORM, ref_instance_norm) X(LRN, ref_lrn) X(QUANTIZE, ref_quantize)     \
    X(DEQUANTIZE, ref_dequantize) X(CONV, ref_conv)                                   \
    X(CONV_TRANSPOSE, ref_conv_transpose) X(MAX_POOL, ref_max_pool)                   \
    X(AVERAGE_POOL, ref_average_pool) X(RECURRENT, ref_recurrent)                     \
    X(ONE_HOT, ref_one_hot) X(EINSUM, ref_einsum) X(RANGE, ref_range) X(EYE, ref_eye) \
    X(MAT_MUL_INTEGER, ref_mat_mul_integer) X(DYNAMIC_QUANTIZE, ref_dynamic_quantize) \
    X(ATTENTION, ref_attention) X(REVERSE, ref_reverse) X(ROI_ALIGN, ref_roi_align)   \
    X(MAX_UNPOOL, ref_max_unpool)
// clang-format on

enum graph_ref_op {
    REF_OP_NONE,
#define X(symbol, object) REF_OP_##symbol,
    GRAPH_REF_OPS(X)
#undef X
        REF_OP_COUNT
};

// ints of REF_OP_EINSUM: number of labels, of those of the output, which come first; then
// GRAPH_MAX_DIMS labels of each input's dimensions.

// ints[0] of REF_OP_BINARY. Comparisons give truth values.
enum ref_binary_kind {
    REF_ADD,
    REF_SUB,
    REF_MUL,
    REF_DIV,  // integers: towards zero
    REF_MOD,  // the sign of the divisor
    REF_FMOD, // the sign of the dividend
    REF_POW,
    REF_MAX,
    REF_MIN,
    REF_AND,
    REF_OR,
    REF_XOR,
    REF_SHIFT_LEFT,
    REF_SHIFT_RIGHT,
    REF_EQUAL,
    REF_LESS,
    REF_LESS_EQUAL,
    REF_GREATER,
    REF_GREATER_EQUAL,
    REF_PRELU,
};

// ints[0] of REF_OP_UNARY; alpha and beta are reals[0] and [1].
enum ref_unary_kind {
    REF_ABS,
    REF_NEG,
    REF_SIGN,
    REF_NOT,
    REF_CEIL,
    REF_FLOOR,
    REF_ROUND,
    REF_SIN,
    REF_COS,
    REF_TAN,
    REF_ASIN,
    REF_ACOS,
    REF_ATAN,
    REF_SINH,
    REF_COSH,
    REF_ASINH,
    REF_ACOSH,
    REF_ATANH,
    REF_IS_NAN,
    REF_IS_INF, // alpha: negative ones, beta: positive ones
    REF_SELU,
    REF_CELU,
    REF_THRESHOLDED_RELU,
    REF_SOFTSIGN,
    REF_SHRINK, // alpha: lambda, beta: bias
    REF_RELU,
    REF_IDENTITY,
};

// reals of REF_OP_ATTENTION. All but the scale are for an NPU of integers, and 0 for real numbers:
// steps, in which it holds queries, products and weights (8 bits with sign), what is added to
// queries (in steps), the product that stands for 0, and the factors that lead from sums to
// products and from real weights to stored ones.
enum ref_attention_real {
    REF_ATTENTION_SCALE,
    REF_ATTENTION_QUERY,
    REF_ATTENTION_QUERY_MORE,
    REF_ATTENTION_TO_PRODUCT,
    REF_ATTENTION_PRODUCT,
    REF_ATTENTION_PRODUCT_ZERO,
    REF_ATTENTION_TO_WEIGHT,
    REF_ATTENTION_WEIGHT,
};

// ints[0] of REF_OP_REDUCE; the others are the axes, all when there are none.
enum ref_reduce_kind {
    REF_SUM,
    REF_MEAN,
    REF_PROD,
    REF_REDUCE_MAX,
    REF_REDUCE_MIN,
    REF_L1,
    REF_L2,
    REF_SUM_SQUARE,
    REF_LOG_SUM,
    REF_LOG_SUM_EXP,
};

// ints of windows: number of dimensions, groups, flags; then of each dimension the kernel, of each
// the stride, and so on: dilation, padding in front, padding behind.
enum ref_window_flag {
    REF_ZERO_POINTS = 1,   // Conv: inputs 2 and 3 are zero points of the others, else 2 is a bias
    REF_TRANSPOSED = 2,    // Conv
    REF_COUNT_PAD = 4,     // AveragePool
    REF_COLUMNS_FIRST = 8, // MaxPool: how output 1 counts places
};

// ints of REF_OP_RECURRENT: kind, direction, layout, linear_before_reset, flags; then three
// activations of each direction; then, where one of them needs it, the bits of alpha and beta of
// each, as floats. reals: clip, 0 for none.
enum ref_recurrent_kind { REF_RNN, REF_LSTM, REF_GRU };
enum ref_direction { REF_FORWARD, REF_BACKWARD, REF_BOTH };
enum ref_recurrent_flag {
    REF_INPUT_FORGET = 1,    // LSTM: one gate for both
    REF_STATES_IN_BYTES = 2, // LSTM: states are quantized for each product, as x would be
};
enum ref_gate {
    REF_GATE_SIGMOID,
    REF_GATE_TANH,
    REF_GATE_RELU,
    REF_GATE_AFFINE, // from here on with alpha, or alpha and beta
    REF_GATE_LEAKY_RELU,
    REF_GATE_THRESHOLDED_RELU,
    REF_GATE_SCALED_TANH,
    REF_GATE_HARD_SIGMOID,
    REF_GATE_ELU,
    REF_GATE_SOFTSIGN, // without again
    REF_GATE_SOFTPLUS,
};
