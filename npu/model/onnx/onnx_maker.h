// Operators that are made of the standard's, where shapes or attributes decide of which: functions
// that take a node apart step by step (ops/onnx_runtime.c, ops/onnx_attention.c).
#pragma once

#include "npu/model/onnx/onnx_lower.h"

// The node that is taken apart. After a failure all steps do nothing, so that functions look once,
// at their end.
struct onnx_maker {
    struct onnx_lowering *l;
    const struct onnx_node *of;
    int (*take)(struct onnx_lowering *l, const struct onnx_node *n, struct error *e);
    struct error *e;
    int r;
    uint32_t n_steps;
};

// Name, whether of ONNX Runtime's domain, fewest and most inputs, who makes it.
// clang-format off
#define ONNX_MADE(X) \
    X("Attention", true, 2, 7, onnx_make_attention) \
    X("DFT", false, 1, 3, onnx_make_dft) \
    X("BiasGelu", true, 2, 2, onnx_make_gelu) \
    X("DynamicQuantizeMatMul", true, 3, 5, onnx_make_dynamic_product) \
    X("EmbedLayerNormalization", true, 7, 9, onnx_make_embed) \
    X("FastGelu", true, 1, 2, onnx_make_gelu) \
    X("FusedConv", true, 2, 4, onnx_make_conv) \
    X("FusedGemm", true, 2, 3, onnx_make_gemm) \
    X("FusedMatMul", true, 2, 2, onnx_make_product) \
    X("MatMulIntegerToFloat", true, 4, 7, onnx_make_integer_product) \
    X("MatMulNBits", true, 3, 6, onnx_make_packed_product) \
    X("MultiHeadAttention", true, 3, 8, onnx_make_heads) \
    X("QuickGelu", true, 1, 1, onnx_make_quick_gelu) \
    X("RMSNormalization", false, 2, 2, onnx_make_rms) \
    X("STFT", false, 2, 4, onnx_make_stft) \
    X("SimplifiedLayerNormalization", false, 2, 2, onnx_make_rms) \
    X("SkipLayerNormalization", true, 3, 5, onnx_make_skip) \
    X("SkipSimplifiedLayerNormalization", true, 3, 4, onnx_make_skip)
// clang-format on

#define X(name, runtime, fewest, most, function) int function(struct onnx_maker *m);
ONNX_MADE(X)
#undef X

/// Input or output i of the node; NULL: left out.
const char *onnx_made_input(const struct onnx_maker *m, uint32_t i);
const char *onnx_made_output(const struct onnx_maker *m, uint32_t i);

/// A name for what a step makes.
const char *onnx_made_name(struct onnx_maker *m);

/// The tensor of a name, which some step or the file has made. NULL (and a failure): none.
const struct graph_tensor *onnx_made_tensor(struct onnx_maker *m, const char *name);

#define ONNX_STEP_INPUTS 5

/// Names of a step's inputs: NULL behind the last one, "" for one that is left out between.
#define ONNX_IN(...) ((const char *const[ONNX_STEP_INPUTS + 1]){__VA_ARGS__})

/// Lowers a standard operator. Returns the name of its output, which is `out`, or one of its own
/// where that is NULL.
const char *onnx_step(struct onnx_maker *m, const char *op,
                      const char *const in[ONNX_STEP_INPUTS + 1], const char *out,
                      const struct onnx_attr *attrs, uint32_t n_attrs);

/// A constant of whole numbers, n of them, or a single one of a type like another tensor's.
const char *onnx_step_ints(struct onnx_maker *m, const int64_t *v, uint32_t n);
const char *onnx_step_like(struct onnx_maker *m, float v, const char *as);

/// Refuses, unless something has failed before.
void onnx_made_refuse(struct onnx_maker *m, const char *words);
/// Refuses attributes of the node but those of the list (separated by spaces), and inputs from i
/// on.
void onnx_made_allow(struct onnx_maker *m, const char *attributes, uint32_t n_inputs);
