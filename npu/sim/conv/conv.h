// Convolution: what its parts (op_conv.c, conv_*.c) share.
//
// For an output pixel (y, x) and an output channel o of group g, with taps (ky, kx) and the input
// channels i of the group:
//   real[o] = scale[o] * (Σ (x[iy][ix][i] - x_zp) * (w[o][i][ky][kx] + nz[o]) + bias[o])
//   iy = y * stride + ky * dilation - pad, ix likewise; outside the image x is x_zp, so adds
//   nothing
//
//   image ---> (lines in the kernel's form) ---> sums, int32 or float ---> outputs
//              conv_lines.c                      a kernel                  conv_epilogue()
//
// The epilogue turns sums into outputs: bias, zero points of weights, scale, activations, addends,
// quantization. Kernels for integers take over as much of it as they can (conv_requantize.h).
//
// Words: all images lie in memory as N, H, W, C. A line is a line of pixels of the image or of the
// output; a row is a row of taps of the window; a tap is one (ky, kx) of the window.
#pragma once

#include "npu/sim/exec/dnn.h"
#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/lut_kernel.h"

enum conv_kernel {
    CONV_DNN,       // oneDNN, 8-bit integers or floats
    CONV_PLAIN,     // exact integers on any CPU
    CONV_DEPTHWISE, // one filter for each channel: integers, and fp16 and other stored types
    CONV_VNNI,      // integers, by products of bytes; groups with AVX512 alone
    CONV_INT16,     // integers, with AVX2 or NEON
    CONV_FLOATS,    // floats that oneDNN has nothing as fast for (floats/conv_floats.h)
};

// Channels of a vector. Arrays of sums and of channels have this many more than are used, so that
// whole vectors can be read and written at their end.
#define CONV_LANES 16
#define CONV_MORE  LUT_MORE

// How sums become int8: not here but through real numbers (conv_epilogue.c), by the chip's stages
// (LeakyRelu or not, with an addend or not), or in floats as ONNX Runtime does.
enum requant_kind {
    REQUANT_NONE,
    REQUANT_PLAIN,
    REQUANT_LEAKY,
    REQUANT_ADD,
    REQUANT_LEAKY_ADD,
    REQUANT_FLOAT32,
};

// What a sum of each channel is multiplied by. conv_requantize.c says how.
struct requant_factors {
    double *exact[2]; // of the first stage, for sums that are not negative, and for negative ones
    float *stage;     // the same as floats, which they are; LEAKY: those of negative sums
    float *positive;  // LEAKY: from sums that are not negative to the output; FLOAT32: from all
    float *negative;  // LEAKY: from the first stage's negative results to the output
};

struct requant_job;

// How an int8 output is made from sums where nothing follows that the chip does otherwise.
struct conv_requant {
    enum requant_kind kind;
    bool in_doubles; // floats would not be exact: of all channels, or of the `open` ones alone
    uint32_t n_open; // not all
    const uint32_t *open;
    bool vectors; // conv_requantize_vectors() may be called
    struct requant_factors factors;
    struct graph_stages stages;
    const int32_t *own_bias; // what of the bias is not the input's zero point's; NULL: no sum_shift
    double low, high;        // FLOAT32: integers, without the zero point
    float error;             // LEAKY: of what floats give, at most, in units of the output
    int32_t addend;          // a tensor; -1: none
    struct element_form form; // of the output
    struct requant_job *job;  // all of it but what a run knows
};

// Lines of the output that oneDNN computes in one call: so many that their sums stay in the L2
// cache until conv_epilogue() has made outputs of them.
struct conv_tile {
    uint32_t call;
    size_t image;         // bytes before its first line
    size_t first, pixels; // of the output
};

struct conv {
    // Sizes of the convolution proper; of a transposed one, after zeros were put between its
    // pixels.
    uint32_t n, ic, ih, iw, oc, oh, ow;
    struct graph_window window;
    bool integer;
    enum conv_kernel kernel;

    // Scratch memory: the image as the kernel takes it (when it is not taken from the tensor
    // itself) or lines of it, the sums, the window sums, and what these are made of.
    bool own_image;
    uint64_t image_at, sums_at, window_at, lines_at, image_lines_at, quads_at;
    uint32_t n_tiles; // CONV_DNN
    struct conv_tile *tiles;

    // Integers: real = scale[c] * (sum + nz[c] * window sum + bias[c]).
    int32_t x_zp;
    // [oc + CONV_MORE], the first ones once more at the end: bias and scale.
    int32_t *bias, *nz;   // nz: zero points of weights; NULL: all 0, or in the weights already
    int32_t *weight_sums; // Σ (w + nz) of each output, where sums are the output; else NULL
    float *addend;        // to these, of each output; NULL: none
    float *scale;         // with a lookup table: of the first stage
    uint64_t max_sum;     // no sum with its bias is larger
    uint64_t *max_sums;   // likewise, of each channel
    struct conv_requant requant;
    struct lut_kernel *lut;    // of outputs by a lookup table; NULL: there is none
    bool lut_complete;         // as lut_job.complete
    const int16_t *lut_values; // of one that more follows: lut_fill_values(); else NULL
    int16_t *weights;          // CONV_PLAIN: [oc][ky][kx][ic of a group]
    // CONV_DEPTHWISE: floats [ky][kx][unit], those of floats with the bias behind them; or, where
    // tap_min is not NULL, quads of bytes [four ky][kx][unit], each less the tap_min of its
    // channel.
    void *taps;
    int32_t *tap_min;
    bool lowered, lowered_far; // not all of tap_min are 0; not all are int8
    struct conv_vnni *vnni;
    struct conv_int16 *int16;
    struct conv_floats *floats;

    // Floats: the primitive adds the bias and does the first activations behind it.
    float *float_bias;              // NULL: none
    uint32_t n_fused;               // so many of the node's
    bool direct;                    // nothing is left to the epilogue: oneDNN writes the output
    bool in_output;                 // … or its tiles, on which the epilogue works there
    struct element_form image_form; // CONV_DEPTHWISE
    bool fp16;                      // … of lines of fp16
    bool fp16_outputs;              // … to outputs of fp16, in these bounds
    struct clamp_bounds bounds;

    bool transposed;
    uint32_t stride[2];         // of the transposed one
    uint32_t x_h, x_w;          // its image before
    struct conv_phases *phases; // not NULL: these compute it (transposed/conv_phases.h)
};

static inline size_t conv_pixels(const struct conv *c)
{
    return (size_t)c->n * c->oh * c->ow;
}

/// Prepares an integer convolution whose sizes are set: its kernel, weights ([oc][ic of a
/// group][kh][kw]) and scratch memory.
int conv_prepare_weights(struct step *s, struct conv *c, int8_t *weights, struct error *e);

/// The same for floats, whose bias is set.
int conv_prepare_floats(struct step *s, struct conv *c, float *weights, struct error *e);

/// Runs a step whose state is a convolution.
int conv_run(const struct step *s, struct run *r, struct error *e);

/// How many lines of the output a tile has at most; those of all images when one tile holds them.
uint32_t conv_tile_lines(const struct conv *c);

/// How many of the node's first activations oneDNN does with floats.
uint32_t conv_dnn_fuses(const struct graph_node *n);

/// Whether oneDNN has an integer convolution of these sizes that gives the right sums.
bool conv_dnn_is_exact(const struct step *s, const struct conv *c);

/// Whether oneDNN has a kernel of its own for one filter for each channel. It has none for some
/// dilations and numbers of channels.
bool conv_dnn_has_depthwise(const struct step *s, const struct conv *c);

/// Whether oneDNN has more for it than a product of matrices and plain C.
bool conv_dnn_has_kernel(const struct step *s, const struct conv *c);

/// Prepares CONV_DNN: makes the primitives and their weights. `weights` is [oc][ic of a
/// group][kh][kw], int8_t or float.
int conv_dnn_prepare(struct step *s, struct conv *c, void *weights, struct error *e);

/// The zero point of one weight; `taps` is the size of a kernel's window.
int32_t conv_weight_zp(const struct graph_conv_quant *q, size_t taps, uint32_t o, size_t tap);

/// Prepares integer weights and zero points: `w` is [oc][ic of a group][kh][kw].
int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e);

/// CONV_PLAIN: weights with their zero points as int16, and the kernel, output line by output line.
int conv_plain_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
void conv_plain_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// Window sums, Σ (x - x_zp) over each output pixel's window and each group, at c->window_at as
/// [pixel][group]: what the zero points of weights are multiplied by. And their scratch memory.
int conv_window_scratch(struct step *s, struct conv *c, struct error *e);
void conv_window_sums(const struct conv *c, struct run *r, const int8_t *image);

/// CONV_DEPTHWISE: integers are summed in floats, exactly where conv_depthwise_fits(). Weights are
/// laid out as above; floats must be finite, since padding is multiplied too.
bool conv_depthwise_fits(const struct step *s);
bool conv_depthwise_fits_floats(const struct conv *c, const float *w);
int conv_depthwise_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_depthwise_prepare_floats(struct step *s, struct conv *c, const float *w, struct error *e);
int conv_depthwise_scratch(struct step *s, struct conv *c, struct error *e);
void conv_depthwise_run(const struct step *s, const struct conv *c, struct run *r,
                        const int8_t *image);

/// CONV_VNNI (conv_vnni.h). Its sums contain bias and zero points already.
bool conv_vnni_fits(const struct step *s, const struct conv *c);
int conv_vnni_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_vnni_scratch(struct step *s, struct conv *c, struct error *e);
void conv_vnni_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// CONV_INT16 (conv_int16.h).
bool conv_int16_fits(const struct conv *c);
int conv_int16_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_int16_scratch(struct step *s, struct conv *c, struct error *e);
void conv_int16_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// CONV_FLOATS (floats/conv_floats.h). Weights are [oc][ic][kh][kw].
bool conv_floats_fits(const struct step *s, const struct conv *c, const float *w);
int conv_floats_prepare(struct step *s, struct conv *c, const float *w, struct error *e);
int conv_floats_scratch(struct step *s, struct conv *c, struct error *e);
void conv_floats_run(const struct step *s, const struct conv *c, struct run *r,
                     const int8_t *image);

/// Sets c->requant; its kind stays REQUANT_NONE where outputs must be made from real numbers.
int conv_requantize_prepare(struct step *s, struct conv *c, struct error *e);

/// conv_epilogue() where c->requant has another kind. Where sums lose bits, they are written to.
void conv_requantize(const struct step *s, const struct conv *c, struct run *r, int32_t *sums,
                     size_t first, size_t n_pixels);

/// Turns the sums of `n_pixels` outputs from `first` on into stored outputs. CONV_LANES more sums
/// must be readable behind them. They may be written to.
void conv_epilogue(const struct step *s, const struct conv *c, struct run *r, void *sums,
                   size_t first, size_t n_pixels);
