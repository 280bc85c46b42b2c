// Reference operators: for what is rare, and for integers. Each works on whole tensors as 64-bit
// integers or doubles, in the order of their dimensions, one element after the other: slow, exact,
// and short.
#pragma once

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/step.h"

#define REF_MAX_INPUTS  8
#define REF_MAX_OUTPUTS 4
#define REF_MAX_LABELS  16 // of Einsum

union ref_value {
    int64_t i; // integers and truth values
    double r;  // floats
};

struct ref_tensor {
    const struct graph_tensor *t; // NULL: left out
    bool real;                    // which of the union it is
    union ref_value *v;           // t->n_elems
};

struct ref_call {
    const struct graph_node *node;
    struct ref_tensor in[REF_MAX_INPUTS], out[REF_MAX_OUTPUTS];
    union ref_value *extra; // ref_operator.extra elements
};

struct ref_operator {
    /// Fills the outputs. Fails on values that it cannot work on (an index out of range, a shape
    /// that is not the one the model was loaded for).
    int (*run)(struct ref_call *c, struct error *e);
    /// Checks shapes and types before anything runs, and returns how many elements of extra memory
    /// are needed. NULL: nothing to check.
    int (*check)(const struct ref_call *c, uint64_t *ret_extra, struct error *e);
};

/// Whether the element type can be worked on.
bool ref_type_known(enum tensor_type type);

#define ref_refuse(c, e, ...) graph_refuse((c)->node, e, __VA_ARGS__)

/// STATUS_FAIL in the form "node NAME (TYPE): …", while running.
int ref_fail(const struct ref_call *c, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Walks the elements of `dims` in order, and the offsets of operands by their steps.
struct ref_walk {
    uint32_t n_dims, n_operands;
    uint32_t dims[GRAPH_MAX_DIMS], index[GRAPH_MAX_DIMS];
    int64_t strides[3][GRAPH_MAX_DIMS], at[3];
};

void ref_walk_init(struct ref_walk *w, const struct graph_tensor *over);

/// Adds an operand that is broadcast as ONNX does; false: it does not fit.
bool ref_walk_broadcast(struct ref_walk *w, const struct graph_tensor *t);

void ref_walk_next(struct ref_walk *w);

/// Without its fraction; what no integer can hold becomes the nearest that can be held, NaN 0.
int64_t ref_to_integer(double v);

/// Steps of the dimensions of a packed tensor in plain order.
void ref_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS]);

// ints of ref_einsum: number of labels, of those of the output, which come first; then
// GRAPH_MAX_DIMS labels of each input's dimensions.

// ints[0] of ref_binary. Comparisons give truth values.
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

// ints[0] of ref_unary; alpha and beta are reals[0] and [1].
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

// ints[1] of ref_space.
enum ref_space_kind { REF_DEPTH_TO_SPACE_DCR, REF_DEPTH_TO_SPACE_CRD, REF_SPACE_TO_DEPTH };

// ints[0] of ref_reduce; the others are the axes, all when there are none.
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

// ints of ref_recurrent: kind, direction, layout, linear_before_reset, input_forget; then three
// activations of each direction. reals: clip, 0 for none.
enum ref_recurrent_kind { REF_RNN, REF_LSTM, REF_GRU };
enum ref_direction { REF_FORWARD, REF_BACKWARD, REF_BOTH };
enum ref_gate { REF_GATE_SIGMOID, REF_GATE_TANH, REF_GATE_RELU };

extern const struct ref_operator ref_binary, ref_unary, ref_where, ref_clip, ref_cast, ref_reduce,
    ref_arg_reduce, ref_softmax, ref_hardmax, ref_cum_sum, ref_top_k, ref_gather,
    ref_gather_elements, ref_gather_nd, ref_scatter_elements, ref_scatter_nd, ref_pad, ref_tile,
    ref_trilu, ref_layer_norm, ref_instance_norm, ref_lrn, ref_quantize, ref_dequantize, ref_conv,
    ref_conv_transpose, ref_max_pool, ref_average_pool, ref_recurrent, ref_one_hot, ref_einsum,
    ref_range, ref_eye, ref_mat_mul_integer, ref_dynamic_quantize, ref_space;
