// Operators that are rare: whole tensors as wide numbers, in the order of their dimensions. Slow,
// and exact: integers stay integers, floats are worked on in double precision.
#pragma once

#include "npu/sim/exec/plan.h"

#define WIDE_MAX_INPUTS  8
#define WIDE_MAX_OUTPUTS 4
#define WIDE_MAX_LABELS  16 // of Einsum

union wide {
    int64_t i; // integers and truth values
    double r;  // floats
};

struct wide_tensor {
    const struct graph_tensor *t; // NULL: left out
    bool real;                    // which of the union it is
    union wide *v;                // t->n_elems
};

struct wide_call {
    const struct graph_node *node;
    struct wide_tensor in[WIDE_MAX_INPUTS], out[WIDE_MAX_OUTPUTS];
    union wide *extra; // wide_operator.extra elements
};

struct wide_operator {
    /// Fills the outputs. Fails on values that it cannot work on (an index out of range, a shape
    /// that is not the one the model was loaded for).
    int (*run)(struct wide_call *c, struct error *e);
    /// Checks shapes and types before anything runs, and returns how many elements of extra memory
    /// are needed. NULL: nothing to check.
    int (*check)(const struct wide_call *c, uint64_t *ret_extra, struct error *e);
};

/// Whether the element type can be worked on.
bool wide_type_known(enum tensor_type type);

#define wide_refuse(c, e, ...) graph_refuse((c)->node, e, __VA_ARGS__)

/// STATUS_FAIL in the form "node NAME (TYPE): …", while running.
int wide_fail(const struct wide_call *c, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A tensor seen along one axis: outer x size x inner.
struct wide_along {
    uint64_t outer, size, inner;
};

struct wide_along wide_along(const struct graph_tensor *t, int64_t axis);

// Walks the elements of `dims` in order, and the offsets of operands by their steps.
struct wide_walk {
    uint32_t n_dims, n_operands;
    uint32_t dims[GRAPH_MAX_DIMS], index[GRAPH_MAX_DIMS];
    int64_t strides[3][GRAPH_MAX_DIMS], at[3];
};

void wide_walk_init(struct wide_walk *w, const struct graph_tensor *over);

/// Adds an operand that is broadcast as ONNX does; false: it does not fit.
bool wide_walk_broadcast(struct wide_walk *w, const struct graph_tensor *t);

void wide_walk_next(struct wide_walk *w);

/// Without its fraction; what no integer can hold becomes the nearest that can be held, NaN 0.
int64_t wide_whole(double v);

/// Steps of the dimensions of a packed tensor in plain order.
void wide_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS]);

// ints of wide_einsum: number of labels, of those of the output, which come first; then
// GRAPH_MAX_DIMS labels of each input's dimensions.

// ints[0] of wide_binary. Comparisons give truth values.
enum wide_binary_kind {
    WIDE_ADD,
    WIDE_SUB,
    WIDE_MUL,
    WIDE_DIV,  // integers: towards zero
    WIDE_MOD,  // the sign of the divisor
    WIDE_FMOD, // the sign of the dividend
    WIDE_POW,
    WIDE_MAX,
    WIDE_MIN,
    WIDE_AND,
    WIDE_OR,
    WIDE_XOR,
    WIDE_SHIFT_LEFT,
    WIDE_SHIFT_RIGHT,
    WIDE_EQUAL,
    WIDE_LESS,
    WIDE_LESS_EQUAL,
    WIDE_GREATER,
    WIDE_GREATER_EQUAL,
    WIDE_PRELU,
};

// ints[0] of wide_unary; alpha and beta are reals[0] and [1].
enum wide_unary_kind {
    WIDE_ABS,
    WIDE_NEG,
    WIDE_SIGN,
    WIDE_NOT,
    WIDE_CEIL,
    WIDE_FLOOR,
    WIDE_ROUND,
    WIDE_SIN,
    WIDE_COS,
    WIDE_TAN,
    WIDE_ASIN,
    WIDE_ACOS,
    WIDE_ATAN,
    WIDE_SINH,
    WIDE_COSH,
    WIDE_ASINH,
    WIDE_ACOSH,
    WIDE_ATANH,
    WIDE_IS_NAN,
    WIDE_IS_INF, // alpha: negative ones, beta: positive ones
    WIDE_SELU,
    WIDE_CELU,
    WIDE_THRESHOLDED_RELU,
    WIDE_SOFTSIGN,
    WIDE_SHRINK, // alpha: lambda, beta: bias
    WIDE_RELU,
    WIDE_IDENTITY,
};

// ints[1] of wide_space.
enum wide_space_kind { WIDE_DEPTH_TO_SPACE_DCR, WIDE_DEPTH_TO_SPACE_CRD, WIDE_SPACE_TO_DEPTH };

// ints[0] of wide_reduce; the others are the axes, all when there are none.
enum wide_reduce_kind {
    WIDE_SUM,
    WIDE_MEAN,
    WIDE_PROD,
    WIDE_REDUCE_MAX,
    WIDE_REDUCE_MIN,
    WIDE_L1,
    WIDE_L2,
    WIDE_SUM_SQUARE,
    WIDE_LOG_SUM,
    WIDE_LOG_SUM_EXP,
};

// ints of windows: number of dimensions, groups, flags; then of each dimension the kernel, of each
// the stride, and so on: dilation, padding in front, padding behind.
enum wide_window_flag {
    WIDE_ZERO_POINTS = 1,   // Conv: inputs 2 and 3 are zero points of the others, else 2 is a bias
    WIDE_TRANSPOSED = 2,    // Conv
    WIDE_COUNT_PAD = 4,     // AveragePool
    WIDE_COLUMNS_FIRST = 8, // MaxPool: how output 1 counts places
};

// ints of wide_recurrent: kind, direction, layout, linear_before_reset, input_forget; then three
// activations of each direction. reals: clip, 0 for none.
enum wide_recurrent_kind { WIDE_RNN, WIDE_LSTM, WIDE_GRU };
enum wide_direction { WIDE_FORWARD, WIDE_BACKWARD, WIDE_BOTH };
enum wide_gate { WIDE_GATE_SIGMOID, WIDE_GATE_TANH, WIDE_GATE_RELU };

extern const struct wide_operator wide_binary, wide_unary, wide_where, wide_clip, wide_cast,
    wide_reduce, wide_arg_reduce, wide_softmax, wide_hardmax, wide_cum_sum, wide_top_k, wide_gather,
    wide_gather_elements, wide_gather_nd, wide_scatter_elements, wide_scatter_nd, wide_pad,
    wide_tile, wide_trilu, wide_layer_norm, wide_instance_norm, wide_lrn, wide_quantize,
    wide_dequantize, wide_conv, wide_conv_transpose, wide_max_pool, wide_average_pool,
    wide_recurrent, wide_one_hot, wide_einsum, wide_range, wide_eye, wide_mat_mul_integer,
    wide_dynamic_quantize, wide_space;
