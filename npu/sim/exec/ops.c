// Which operator computes what.
#include "npu/sim/exec/ops.h"

const struct op *const ops[GRAPH_OP_COUNT] = {
#define X(symbol, kernel, cost, batch) [GRAPH_##symbol] = &(kernel),
    GRAPH_OPS(X)
#undef X
};

const struct op *const ops_ort_int8[GRAPH_OP_COUNT] = {
    [GRAPH_ADD] = &op_ort_int8_binary,
    [GRAPH_MUL] = &op_ort_int8_binary,
    [GRAPH_SOFTMAX] = &op_ort_int8_softmax,
};
