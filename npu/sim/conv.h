// Convolution: what its parts (op_conv.c, conv_*.c) share.
//
// The image is brought into the form that a kernel takes, a kernel sums up products, and
// conv_finish() turns sums into outputs: bias, zero points of weights, scale, activations, addends,
// quantization. All images lie in memory as N, H, W, C.
#pragma once

#include "npu/sim/dnn.h"
#include "npu/sim/rows.h"

enum conv_kernel {
    CONV_DNN,       // oneDNN, 8-bit integers or floats
    CONV_PLAIN,     // exact integers on CPUs where oneDNN's are not
    CONV_DEPTHWISE, // integers, one filter for each channel
};

struct conv {
    // Sizes of the convolution proper; of a transposed one, after zeros were put between its
    // pixels.
    uint32_t n, ic, ih, iw, oc, oh, ow;
    struct graph_window window;
    bool integer;
    enum conv_kernel kernel;

    // Scratch memory: the image as the kernel takes it (when it is not taken from the tensor
    // itself), the sums, and the sums of image windows.
    bool own_image;
    uint64_t image_at, sums_at, window_at, lines_at;
    uint32_t call;

    // Integers: real = scale[c] * (sum + nz[c] * window sum + bias[c]).
    int32_t x_zp;
    int32_t *bias, *nz; // nz NULL: all 0, or in the weights already
    float *scale;
    double *steps;    // output steps of each unit of a sum, where conv_steps_finish() is to work
    int16_t *weights; // CONV_PLAIN: [oc][ky][kx][ic of a group], CONV_DEPTHWISE: [ky][kx][c]
    bool repeat;      // CONV_DEPTHWISE: [ky][kx][x][c], the same for each x of a line

    // Floats: real = sum + float_bias[c].
    float *float_bias; // NULL: none
    bool direct;       // the primitive adds the bias, does the activation and writes the output

    bool transposed;
    uint32_t stride[2]; // of the transposed one
    uint32_t x_h, x_w;  // its image before
};

static inline size_t conv_pixels(const struct conv *c)
{
    return (size_t)c->n * c->oh * c->ow;
}

/// Prepares CONV_DNN: makes the primitive and its weights. `weights` is [oc][ic of a
/// group][kh][kw], int8_t or float.
int conv_dnn_prepare(struct step *s, struct conv *c, void *weights, struct error *e);

/// Prepares integer weights and zero points: `w` is [oc][ic of a group][kh][kw].
int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e);

// Sums of the channels [from, from + n) of some pixels, on their way to outputs.
struct conv_part {
    const int32_t *sums, *windows; // of the first pixel
    size_t pixels, from, n;
};

/// Runs the plain integer kernels with conv_finish() row by row.
void conv_integer_run(const struct step *s, const struct conv *c, struct run *r,
                      const int8_t *image);

/// Sums of (x - zp) over each output's window, per group, into scratch memory.
void conv_window_sums(const struct conv *c, struct run *r, const int8_t *image);

/// Prepares c->steps where the output is int8 and nothing is done to it that takes real numbers.
int conv_steps_prepare(struct step *s, struct conv *c, struct error *e);

/// As conv_finish(), for c->steps.
void conv_steps_finish(const struct step *s, const struct conv *c, struct run *r,
                       const int32_t *sums, size_t first, size_t n_pixels);

/// Turns the sums of `n_pixels` outputs from `first` on into stored outputs.
void conv_finish(const struct step *s, const struct conv *c, struct run *r, const void *sums,
                 size_t first, size_t n_pixels);
