// What the kernels of depthwise convolutions share: one line of the output, in units (a pixel, or
// as many neighbouring pixels as fill vectors; conv_depthwise.c).
//
//   sources[k] ---> x[unit 0] x[unit 1] …     image elements under tap k, `in` apart
//   taps       ---> [k][unit, padded]         `tap` apart
//   to         ---> y[unit 0] y[unit 1] …     `out` apart
#pragma once

#include "npu/sim/conv/conv_lines.h"
#include "npu/sim/conv/conv_requantize.h"

#define DEPTHWISE_UNROLL 8 // units whose sums are in registers at a time, of AVX512
#define DEPTHWISE_FEW    4 // of others, which have half of that or less
#define DEPTHWISE_TAPS   512

struct depthwise_line {
    const void *sources[DEPTHWISE_TAPS]; // under each tap of the first unit
    const void *taps;
    const int32_t *tap_min;     // of quads: what taps have been lowered by, for each channel
    bool lowered, lowered_far;  // not all of these are 0; not all are int8
    size_t n_taps, columns;     // columns: of the window
    size_t tap;                 // elements from one tap to the next
    size_t n, in, out;          // units; elements between neighbours
    size_t size;                // elements of the output: n units, and perhaps a part of one
    size_t pixel;               // elements from one column under the window to the next
    void *to;                   // sums, or fp16 outputs
    bool outputs;               // … these, of the kernels from fp16
    struct clamp_bounds bounds; // of fp16 outputs
    // Not NULL: quads become outputs in registers, where depthwise_stores() says so; `first` is the
    // first pixel of the output. Then `to` is scratch memory.
    const struct requant_job *requant;
    size_t first;
    void (*sum)(const struct depthwise_line *l); // the whole line
};

// Of all whole units, `many` at a time, the last ones moved back so that they end where the line
// ends. False: there are fewer.
static inline __attribute__((always_inline)) bool depthwise_each_many(
    const struct depthwise_line *l, size_t o, const int n_many,
    void (*sum)(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n))
{
    const size_t many = (size_t)n_many;
    size_t i = 0;
    if (l->n < many)
        return false;
    for (; i + many <= l->n; i += many)
        sum(l, i * l->in, i * l->out, o, n_many);
    if (i < l->n)
        sum(l, (l->n - many) * l->in, (l->n - many) * l->out, o, n_many);
    return true;
}

/// Calls `sum` for all of the line: for n neighbouring units, `many`, DEPTHWISE_FEW or 1, whose
/// first elements are `in` in the sources and `out` in the output, the CONV_LANES elements from the
/// o-th of each on. The last units of many are moved back, and so is a unit's last vector: some
/// outputs are computed twice. Units smaller than a vector write too much, which the next unit
/// overwrites.
static inline __attribute__((always_inline)) void
depthwise_each(const struct depthwise_line *l, const int n_many,
               void (*sum)(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n))
{
    for (size_t from = 0; from < l->out; from += CONV_LANES) {
        size_t last = l->out < CONV_LANES ? 0 : l->out - CONV_LANES, o = from < last ? from : last;
        bool done = depthwise_each_many(l, o, n_many, sum) ||
                    (n_many > DEPTHWISE_FEW && depthwise_each_many(l, o, DEPTHWISE_FEW, sum));
        for (size_t i = 0; i < l->n && !done; i++)
            sum(l, i * l->in, i * l->out, o, 1);
        if (l->n * l->out < l->size)
            sum(l, l->size - l->out, l->size - l->out, o, 1);
    }
}

// ---- kernels that make outputs of whole lines, for windows and strides that are unrolled ----

#define DEPTHWISE_STORE(define, kernel, columns, stride, name, kind)                               \
    define static void depthwise_store_##name##_##columns##_##stride(                              \
        const struct depthwise_line *l)                                                            \
    {                                                                                              \
        kernel(l, columns, stride, kind);                                                          \
    }
#define DEPTHWISE_STORE_ALL(define, kernel, columns, stride)                                       \
    DEPTHWISE_STORE(define, kernel, columns, stride, plain, REQUANT_PLAIN)                         \
    DEPTHWISE_STORE(define, kernel, columns, stride, leaky, REQUANT_LEAKY)                         \
    DEPTHWISE_STORE(define, kernel, columns, stride, floats, REQUANT_FLOAT32)
#define DEPTHWISE_STORED(columns, stride)                                                          \
    {                                                                                              \
        [REQUANT_PLAIN] = depthwise_store_plain_##columns##_##stride,                              \
        [REQUANT_LEAKY] = depthwise_store_leaky_##columns##_##stride,                              \
        [REQUANT_FLOAT32] = depthwise_store_floats_##columns##_##stride,                           \
    }

/// Defines depthwise_store(l), for what depthwise_has_window() is true of: calls kernel(l, columns,
/// stride, kind), which is inlined into a function that `define` begins, once for each of these.
#define DEPTHWISE_STORES(define, kernel)                                                           \
    DEPTHWISE_STORE_ALL(define, kernel, 3, 1)                                                      \
    DEPTHWISE_STORE_ALL(define, kernel, 3, 2)                                                      \
    DEPTHWISE_STORE_ALL(define, kernel, 5, 1)                                                      \
    DEPTHWISE_STORE_ALL(define, kernel, 5, 2)                                                      \
    static void depthwise_store(const struct depthwise_line *l)                                    \
    {                                                                                              \
        static void (*const stores[][2][REQUANT_FLOAT32 + 1])(const struct depthwise_line *l) = {  \
            {DEPTHWISE_STORED(3, 1), DEPTHWISE_STORED(3, 2)},                                      \
            {DEPTHWISE_STORED(5, 1), DEPTHWISE_STORED(5, 2)}};                                     \
        stores[l->columns == 5][l->in / l->out - 1][l->requant->kind](l);                          \
    }

/// Whether windows are of a size and a stride whose loops are unrolled.
static inline bool depthwise_has_window(const struct depthwise_line *l)
{
    const size_t columns = l->columns, stride = l->in / l->out;
    return (columns == 3 || columns == 5) && (stride == 1 || stride == 2);
}

/// The kernel for quads, with AVX512-VNNI or NEON's dot products: elements are a byte of each of
/// four lines, as depthwise_interleave() makes them, taps four int8.
void depthwise_sum_quads(const struct depthwise_line *l);

/// Whether that makes the outputs of such a line, where they are narrow (struct requant_job).
bool depthwise_stores(const struct depthwise_line *l);

/// The kernel from lines of fp16, with AVX2 or AVX512, and whether it can be used; and whether it
/// makes outputs of fp16 itself, within these bounds, not sums.
void depthwise_sum_fp16(const struct depthwise_line *l);
bool depthwise_fits_fp16(const struct step *s, const struct conv *c);
bool depthwise_outputs_fp16(const struct step *s, const struct conv *c,
                            struct clamp_bounds *bounds);

/// Joins lines to quads: byte i of to[k] is rows[i][k], raised by VNNI_RAISE, for the first four of
/// n_rows lines of n bytes, and 0 where there are fewer.
void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to);
