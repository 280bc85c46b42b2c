// An operator of two operands, those of fp16_binary_knows(), as a constant to a kernel that is
// inline: so its loop asks nothing.
#pragma once

#include "npu/model/graph.h"

#define WITH_BINARY(op, kernel, ...)                                                               \
    ((op) == GRAPH_ADD   ? kernel(GRAPH_ADD, __VA_ARGS__)                                          \
     : (op) == GRAPH_SUB ? kernel(GRAPH_SUB, __VA_ARGS__)                                          \
                         : kernel(GRAPH_MUL, __VA_ARGS__))
