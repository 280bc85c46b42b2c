// Convolution: what its parts (op_conv.c, conv_*.c) share.
//
// The image is brought into the form that a kernel takes, a kernel sums up products, and
// conv_epilogue() turns sums into outputs: bias, zero points of weights, scale, activations,
// addends, quantization. All images lie in memory as N, H, W, C.
#pragma once

#include "npu/sim/exec/dnn.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/fp16_binary.h"

enum conv_kernel {
    CONV_DNN,       // oneDNN, 8-bit integers or floats
    CONV_PLAIN,     // exact integers where oneDNN's are not
    CONV_DEPTHWISE, // one filter for each channel: integers, and floats that are stored as others
    CONV_VNNI,      // integers, one group, with AVX512-VNNI
    CONV_INT16,     // integers, with AVX2
};

// How many elements are worked on together. Arrays of sums and of channels have this many more than
// are used.
#define CONV_LANES 16

// What a sum of each channel is multiplied by: in doubles, the nearest float, and the floats next
// to it on both sides.
struct requant_multiplier {
    double *exact;
    float *nearest, *low, *high;
};

enum requant_kind { REQUANT_NONE, REQUANT_PLAIN, REQUANT_LEAKY, REQUANT_ADD, REQUANT_FLOAT32 };

// How an int8 output is made from sums when nothing is done to it that takes other real numbers.
// `v` is in steps of the output: v = unit[c] * sum, or that of `below` where the sum is negative;
// v += addend; v is rounded, put into its bounds and stored.
struct conv_requant {
    enum requant_kind kind;
    bool in_doubles; // floats do not do
    bool vnni;       // there is AVX512-VNNI
    struct requant_multiplier positive, negative;
    double low, high; // whole numbers
    double alpha;     // LeakyRelu, 1: none
    int32_t addend;   // a tensor; -1: none
    int32_t addend_zp;
    double addend_multiplier;
    struct element_form form; // of the output
};

// Lines of the output that oneDNN computes in one call: so many that their sums stay in the second
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
    // itself) or lines of it, the sums, the sums of image windows, and what these are made of.
    bool own_image;
    uint64_t image_at, sums_at, window_at, lines_at, image_lines_at, quads_at;
    uint32_t n_tiles; // CONV_DNN
    struct conv_tile *tiles;

    // Integers: real = scale[c] * (sum + nz[c] * window sum + bias[c]).
    int32_t x_zp;
    int32_t *bias, *nz; // nz NULL: all 0, or in the weights already
    float *scale;
    uint64_t max_sum; // no sum with its bias is larger
    struct conv_requant requant;
    int16_t *weights; // CONV_PLAIN: [oc][ky][kx][ic of a group]
    void *taps;       // CONV_DEPTHWISE: [ky][kx][c, padded to CONV_LANES], floats, bias behind,
    int32_t *tap_min; // or, where this is not NULL, four int8 above it, of four ky
    struct conv_vnni *vnni;
    struct conv_int16 *int16;

    // Floats: the primitive adds the bias and does the first activations behind it.
    float *float_bias;              // NULL: none
    uint32_t n_fused;               // so many of the node's
    bool direct;                    // nothing is left: it writes the output
    struct element_form image_form; // CONV_DEPTHWISE
    bool fp16;                      // … from the image to the output, in these bounds
    struct clamp_bounds bounds;

    bool transposed;
    uint32_t stride[2]; // of the transposed one
    uint32_t x_h, x_w;  // its image before
};

static inline size_t conv_pixels(const struct conv *c)
{
    return (size_t)c->n * c->oh * c->ow;
}

/// Most lines of the output in a tile; those of all images when one tile holds them.
uint32_t conv_tile_lines(const struct conv *c);

/// How many of the node's first activations oneDNN does with floats.
uint32_t conv_dnn_fuses(const struct graph_node *n);

/// Whether oneDNN computes an integer convolution of these sizes, and rightly.
bool conv_dnn_is_exact(const struct step *s, const struct conv *c);

/// Prepares CONV_DNN: makes the primitives and their weights. `weights` is [oc][ic of a
/// group][kh][kw], int8_t or float.
int conv_dnn_prepare(struct step *s, struct conv *c, void *weights, struct error *e);

/// The zero point of one weight; `taps` is the size of a kernel's window.
int32_t conv_weight_zp(const struct graph_conv_quant *q, size_t taps, uint32_t o, size_t tap);

/// Prepares integer weights and zero points: `w` is [oc][ic of a group][kh][kw].
int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e);

// Sums of the channels [from, from + n) of some pixels, on their way to outputs.
struct conv_part {
    const int32_t *sums, *windows; // of the first pixel
    size_t pixels, from, n;
};

/// Runs the plain integer kernel with conv_epilogue() row by row.
void conv_plain_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// Scratch memory for the sums of (x - zp) over each output's window, per group, and their
/// counting.
int conv_window_scratch(struct step *s, struct conv *c, struct error *e);
void conv_window_sums(const struct conv *c, struct run *r, const int8_t *image);

/// CONV_DEPTHWISE: sums may be counted in floats, which hold those of integers exactly where
/// conv_depthwise_fits(). Weights as above; those of floats must be finite, since padding is
/// multiplied too.
bool conv_depthwise_fits(const struct step *s);
bool conv_depthwise_fits_floats(const struct conv *c, const float *w);
int conv_depthwise_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_depthwise_prepare_floats(struct step *s, struct conv *c, const float *w, struct error *e);
int conv_depthwise_scratch(struct step *s, struct conv *c, struct error *e);
void conv_depthwise_run(const struct step *s, const struct conv *c, struct run *r,
                        const int8_t *image);

/// CONV_VNNI (conv_vnni.h). It leaves nothing of bias and zero points to conv_epilogue().
bool conv_vnni_fits(const struct conv *c);
int conv_vnni_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_vnni_scratch(struct step *s, struct conv *c, struct error *e);
void conv_vnni_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// CONV_INT16 (conv_int16.h).
bool conv_int16_fits(const struct conv *c);
int conv_int16_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e);
int conv_int16_scratch(struct step *s, struct conv *c, struct error *e);
void conv_int16_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image);

/// Prepares c->requant where it does.
int conv_requantize_prepare(struct step *s, struct conv *c, struct error *e);

/// As conv_epilogue(), for c->requant.
void conv_requantize(const struct step *s, const struct conv *c, struct run *r, const int32_t *sums,
                     size_t first, size_t n_pixels);

/// Turns the sums of `n_pixels` outputs from `first` on into stored outputs. CONV_LANES more sums
/// must be readable behind them. They may be written to.
void conv_epilogue(const struct step *s, const struct conv *c, struct run *r, void *sums,
                   size_t first, size_t n_pixels);
