// Reference operators: for what is rare, and for integers. Each works on whole tensors as 64-bit
// integers or doubles, in the order of their dimensions, one element after the other: slow, exact,
// and short. op_ref.c converts on the way in and out.
//
// To add one: a struct ref_operator in a file of this folder, declared at the end of this header,
// and in the model readers the row that makes nodes of it (GRAPH_REF). All are tested by
// test_onnx_nodes, which runs ONNX's own test cases for each operator, and where .rknn files have
// them by test_sim_cases_index, _reduce and _edges.
#pragma once

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/step.h"

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

#define ref_refuse(c, e, ...) graph_refuse((c)->node, e, __VA_ARGS__)

/// STATUS_FAIL in the form "node NAME (TYPE): …", while running.
int ref_fail(const struct ref_call *c, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Walks the elements of `dims` in order, and the offsets of operands by their strides.
struct ref_walk {
    uint32_t n_dims, n_operands;
    uint32_t dims[GRAPH_MAX_DIMS], index[GRAPH_MAX_DIMS];
    int64_t strides[3][GRAPH_MAX_DIMS], at[3];
};

void ref_walk_init(struct ref_walk *w, const struct graph_tensor *over);

/// Adds an operand that is broadcast as ONNX does; false: it does not fit.
bool ref_walk_broadcast(struct ref_walk *w, const struct graph_tensor *t);

void ref_walk_next(struct ref_walk *w);

/// An index in [-size, size), negative ones counted from the end.
int ref_resolve(const struct ref_call *c, int64_t index, uint64_t size, uint64_t *ret,
                struct error *e);

/// Index of the element that padding repeats, by Pad's mode; -1: the constant.
int64_t ref_pad_source(int64_t mode, int64_t at, int64_t size);

/// Truncates towards zero and saturates to 64 bits; NaN becomes 0.
int64_t ref_to_integer(double v);

/// Strides of a packed tensor in the order of its dimensions, in elements.
void ref_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS]);

#define X(symbol, object) extern const struct ref_operator object;
GRAPH_REF_OPS(X)
#undef X
