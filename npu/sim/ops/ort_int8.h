// 8-bit numbers of ONNX in the arithmetic of ONNX Runtime on x86: in floats, on stored numbers as
// it has them (unsigned ones are 128 larger than ours), with its roundings and its order of
// operations, for exactly its results. Facts: onnxruntime, core/mlas/lib (qladd, qlmul, qlgavgpool)
// and contrib_ops/cpu/quantization.
#pragma once

#include "npu/model/graph.h"

// Two operands and a result of Add or Mul.
struct ort_int8_binary {
    enum graph_op op;
    bool apart;   // not one operator: real numbers are added or multiplied, then quantized
    bool a_first; // the sum starts with operand a
    const struct graph_tensor *a, *b, *y;
};

/// Apart is what ONNX Runtime does where not all three are signed or all unsigned.
struct ort_int8_binary ort_int8_binary(enum graph_op op, const struct graph_tensor *a,
                                       const struct graph_tensor *b, const struct graph_tensor *y);

/// n numbers; y may be one of the operands.
void ort_int8_binary_run(const struct ort_int8_binary *s, const int8_t *a, const int8_t *b,
                         int8_t *y, size_t n);

/// The mean of `count` numbers from their sum (of stored numbers), for each of n channels.
void ort_int8_mean(const struct graph_tensor *from, const int32_t *sums, uint32_t count,
                   const struct graph_tensor *form, int8_t *y, size_t n);

/// y = real / divisor, real numbers of n channels.
void ort_int8_quotient(const float *real, float divisor, const struct graph_tensor *form, int8_t *y,
                       size_t n);

// The means of windows from sums of their stored numbers.
struct ort_int8_means {
    float factor, zeros; // a sum times the one, plus the other, is its mean less the zero point
    float near;          // what is no farther from an integer is rounded to it in any case
    int32_t zp;
};

/// Of windows of `inside` numbers whose sum is divided by `divisor`.
struct ort_int8_means ort_int8_means(const struct graph_tensor *from, uint32_t inside,
                                     uint32_t divisor, const struct graph_tensor *form);

/// Whether these, of windows whose sum is divided by `taps`, pay: false where many sums lie next to
/// a tie, where floats may be far off, where 16 bits do not hold them, or without AVX2. *ret_sure:
/// no sum is open.
bool ort_int8_means_pay(const struct graph_tensor *from, uint64_t taps,
                        const struct graph_tensor *form, bool *ret_sure);

/// y as ort_int8_quotient() makes it of the sum in floats, but of sums that are open, of which it
/// may be the neighbour. True: there are such.
bool ort_int8_means_run(const struct ort_int8_means *m, bool sure, const int16_t *sums, int8_t *y,
                        size_t n);
bool ort_int8_is_open(const struct ort_int8_means *m, int16_t sum);
