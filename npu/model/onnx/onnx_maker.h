// Operators that are made of the standard's, where shapes or attributes decide of which: functions
// that take a node apart step by step (made/).
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
    X("Attention", false, 3, 6, onnx_make_standard_attention) \
    X("AffineGrid", false, 2, 2, onnx_make_affine_grid) \
    X("AveragePool", false, 1, 1, onnx_make_volume) \
    X("Conv", false, 2, 3, onnx_make_volume) \
    X("ConvTranspose", false, 2, 3, onnx_make_volume) \
    X("MaxPool", false, 1, 1, onnx_make_volume) \
    X("CenterCropPad", false, 2, 2, onnx_make_center_crop) \
    X("Col2Im", false, 3, 3, onnx_make_col2im) \
    X("DFT", false, 1, 3, onnx_make_dft) \
    X("BiasGelu", true, 2, 2, onnx_make_gelu) \
    X("DeformConv", false, 3, 5, onnx_make_deform_conv) \
    X("DynamicQuantizeMatMul", true, 3, 5, onnx_make_dynamic_product) \
    X("EmbedLayerNormalization", true, 7, 9, onnx_make_embed) \
    X("FastGelu", true, 1, 2, onnx_make_gelu) \
    X("FusedConv", true, 2, 4, onnx_make_conv) \
    X("FusedGemm", true, 2, 3, onnx_make_gemm) \
    X("FusedMatMul", true, 2, 2, onnx_make_product) \
    X("GatherBlockQuantized", true, 3, 4, onnx_make_packed_gather) \
    X("GlobalLpPool", false, 1, 1, onnx_make_global_lp_pool) \
    X("GroupQueryAttention", true, 7, 11, onnx_make_grouped) \
    X("LpPool", false, 1, 1, onnx_make_lp_pool) \
    X("MatMulIntegerToFloat", true, 4, 7, onnx_make_integer_product) \
    X("MatMulNBits", true, 3, 6, onnx_make_packed_product) \
    X("MultiHeadAttention", true, 1, 8, onnx_make_heads) \
    X("NhwcMaxPool", true, 1, 1, onnx_make_last) \
    X("QLinearAveragePool", true, 4, 5, onnx_make_last) \
    X("QLinearConv", true, 8, 9, onnx_make_last) \
    X("QLinearGlobalAveragePool", true, 4, 5, onnx_make_last) \
    X("QAttention", true, 5, 9, onnx_make_attention_of_bytes) \
    X("QuickGelu", true, 1, 1, onnx_make_quick_gelu) \
    X("Resize", false, 1, 4, onnx_make_resample) \
    X("RMSNormalization", false, 2, 2, onnx_make_rms) \
    X("RotaryEmbedding", false, 3, 4, onnx_make_rotary) \
    X("RotaryEmbedding", true, 4, 4, onnx_make_runtimes_rotary) \
    X("STFT", false, 2, 4, onnx_make_stft) \
    X("SimplifiedLayerNormalization", false, 2, 2, onnx_make_rms) \
    X("SkipLayerNormalization", true, 3, 5, onnx_make_skip) \
    X("SkipSimplifiedLayerNormalization", true, 3, 4, onnx_make_skip) \
    X("Swish", false, 1, 1, onnx_make_quick_gelu) \
    X("TransposeMatMul", true, 2, 2, onnx_make_product)
// clang-format on

#define X(name, runtime, fewest, most, function) int function(struct onnx_maker *m);
ONNX_MADE(X)
#undef X

/// Whether a convolution or a pool is one of volumes, of a form that is made of images'
/// (made/onnx_volumes.c).
bool onnx_is_volume(const struct onnx_lowering *l, const struct onnx_node *n);

/// Whether a Resize is one that kernels do not know, and so is made (made/onnx_resample.c).
bool onnx_is_resampled(const struct onnx_lowering *l, const struct onnx_node *n);

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

/// Memory for n numbers that are computed for the model, of `size` bytes each. It counts with other
/// such constants: a small file could ask for any length. NULL after a failure, and where it is too
/// much, which refuses the node.
void *onnx_made_room(struct onnx_maker *m, uint64_t n, size_t size);

/// A constant of 0 to n - 1.
const char *onnx_step_places(struct onnx_maker *m, uint64_t n);

/// A constant of whole numbers, n of them; of floats, which are in the graph's pool and stay there;
/// or a single one of a type like another tensor's.
const char *onnx_step_ints(struct onnx_maker *m, const int64_t *v, uint32_t n);
const char *onnx_step_floats(struct onnx_maker *m, const float *v, uint32_t n_dims,
                             const uint32_t *dims);
const char *onnx_step_like(struct onnx_maker *m, float v, const char *as);

/// The same with one input or two, without attributes.
const char *onnx_step_one(struct onnx_maker *m, const char *op, const char *x, const char *out);
const char *onnx_step_two(struct onnx_maker *m, const char *op, const char *a, const char *b,
                          const char *out);

/// A step with n outputs, which get names of their own.
void onnx_steps(struct onnx_maker *m, const char *op, const char *const in[ONNX_STEP_INPUTS + 1],
                const char **outs, uint32_t n);

/// Steps of one operator each. `out` as for onnx_step(); an end of INT64_MAX is the axis's own.
const char *onnx_step_reshaped(struct onnx_maker *m, const char *x, const int64_t *dims, uint32_t n,
                               const char *out);
const char *onnx_step_transposed(struct onnx_maker *m, const char *x, const int64_t *perm,
                                 uint32_t n, const char *out);
const char *onnx_step_sliced(struct onnx_maker *m, const char *x, int64_t axis, int64_t start,
                             int64_t end, int64_t step);
const char *onnx_step_cast(struct onnx_maker *m, const char *x, enum onnx_type type,
                           const char *out);
const char *onnx_step_joined(struct onnx_maker *m, const char *a, const char *b, int64_t axis,
                             const char *out);

/// Attributes of the node that is taken apart.
float onnx_made_float(const struct onnx_maker *m, const char *name, float otherwise);
int64_t onnx_made_int(const struct onnx_maker *m, const char *name, int64_t otherwise);

/// Whether a word is among others that are separated by spaces.
bool onnx_has_word(const char *words, const char *word);

/// Keeps a failure (r negative), with its words; the first one stays.
void onnx_made_fail(struct onnx_maker *m, int r);
/// Refuses, unless something has failed before.
void onnx_made_refuse(struct onnx_maker *m, const char *words);
/// Refuses attributes of the node but those of the list (separated by spaces), and inputs from i
/// on.
void onnx_made_allow(struct onnx_maker *m, const char *attributes, uint32_t n_inputs);

/// Products of integers of two matrices in[0] and in[1], with zero points in[2] and in[3] (NULL:
/// none), times both scales, and a bias (NULL: none).
const char *onnx_real_product(struct onnx_maker *m, const char *const in[4], const char *scale_a,
                              const char *scale_b, const char *bias, const char *out);

// ---- heads of attention ----

struct onnx_heads {
    const char *q, *k, *v; // [batch, heads, length, size]; keys and values may have fewer heads
    float scale;           // 0: 1 / sqrt(size)
    float cap;             // scores become cap * tanh(score / cap); 0: they stay
    const char *added[2];  // to scores; broadcast to [batch, heads, queries, keys]. NULL: nothing
    const char *seen;      // truths, broadcast likewise: where keys count. NULL: everywhere
    bool blind;            // a query that sees no key gives zeros, which it may with `seen`
    bool causal;           // query i sees keys up to `first` + i
    int64_t first;
    const char *stages[4]; // names for scores: as they are, behind cap, behind all that is added
                           // and not seen, as weights. NULL: nobody wants them
};

/// softmax(scale · Q Kᵀ + what is added) V, [batch, heads, queries, size of values].
const char *onnx_attend(struct onnx_maker *m, const struct onnx_heads *h);

/// [batch, length, heads · size] as [batch, heads, length, size], and back.
const char *onnx_split_heads(struct onnx_maker *m, const char *x, int64_t n);
const char *onnx_join_heads(struct onnx_maker *m, const char *x, const char *out);

/// Turns pairs of the first 2 · n elements of each head by angles, whose cosines and sines
/// broadcast to [..., n]. Pairs are neighbours (`neighbours`), or one of each half.
const char *onnx_turn_pairs(struct onnx_maker *m, const char *x, const char *cosines,
                            const char *sines, bool neighbours, const char *out);
