// The yardstick of bench_sim on arm64, where emulators give no times: how many instructions the
// best plain kernels with NEON need, by arithmetic. instructions.c says which kernels these are.
#pragma once

#include "npu/model/graph.h"

struct instructions {
    double convs, rest, products; // products: in no conv, and in no rest
};

/// What the nodes of a graph, its inputs and its outputs take: convolutions, what all others read
/// and write, and products of matrices. dot: with dot products of bytes (armv8.2). Of convolutions
/// that are counted elsewhere (elsewhere[i] for node i; NULL: of none) only what they read besides:
/// a sum for zero points of weights, and what is added behind.
struct instructions instructions_of(const struct graph *g, bool dot, const bool *elsewhere);
