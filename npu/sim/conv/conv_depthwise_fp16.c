// Depthwise convolutions from lines of fp16, with AVX512 or AVX2.
//
//   sum[c] = Σ over taps k: x[k][c] * w[k][c] + bias[c]          in floats, fused multiply-add
//   y[c]   = fp16(clamp(sum[c]))                                 what else is done: conv_epilogue()
//
// Rounding: each tap once (fma), the bias once, the output once, to nearest, ties to even; bounds
// are applied before the output is rounded.
//
// Why it is fast: nothing is in memory between image and output. Eight units (with AVX2 four)
// share the load of a tap; their 8 sums of vectors are in registers. A row of a usual window
// converts each pixel once for all of them. Else each tap converts its inputs again
// (vcvtph2ps from memory, two of the three instructions' work), which takes less time than writing
// and reading lines of floats as long as a pixel is under few taps: MAX_CONVERSIONS.
//
// Tests: test_sim_fp16, test_sim_cases_float16_conv.
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

#define MAX_CONVERSIONS 9 // of a pixel
#define MAX_COLUMNS     5 // of a window with a kernel of its own

// Windows that have a kernel of their own, by the pixels from one unit's to the next one's. AVX2,
// which has fewer registers, gains by wide ones of neighbours alone.
static bool depthwise_fp16_has_window(size_t columns, size_t step)
{
    return kernel_has_avx512() ? (columns == 3 || columns == 5) && (step == 1 || step == 2)
                               : columns == 5 && step == 1;
}

bool depthwise_fits_fp16(const struct step *s, const struct conv *c)
{
    const struct graph_window *w = &c->window;
    double taps = (double)w->kernel[0] * w->kernel[1] * c->oh * c->ow;
    bool lanes = kernel_has_avx512() || (kernel_has_avx2() && c->oc >= CONV_LANES);
    bool pairs = c->oc % CONV_LANES == CONV_LANES / 2 && w->stride[1] == 1; // units of two pixels
    bool own = (c->oc % CONV_LANES == 0 || pairs) && w->dilation[1] == 1 &&
               depthwise_fp16_has_window(w->kernel[1], pairs ? 2 : w->stride[1]);
    return lanes && (own || taps <= (double)c->ih * c->iw * MAX_CONVERSIONS) &&
           step_input(s, 0)->type == TENSOR_FLOAT16;
}

bool depthwise_outputs_fp16(const struct step *s, const struct conv *c, struct clamp_bounds *bounds)
{
    (void)c;
    return step_output(s, 0)->type == TENSOR_FLOAT16 &&
           clamp_bounds(s->node->post, s->node->n_post, bounds);
}

#ifdef KERNEL_AVX512
// The sums of n units with their bias, or the outputs that these become, from `at` of the line on.
AVX512_INLINE void depthwise_fp16_put(const struct depthwise_line *l, __mmask16 lanes,
                                      const __m512 *sums, __m512 bias, const int n, size_t at)
{
    const struct clamp_bounds bounds = l->bounds;
    const size_t step = l->out;
    if (l->outputs) {
        uint16_t *to = (uint16_t *)l->to + at;
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            avx512_store_fp16(lanes, _mm512_add_ps(sums[i], bias), bounds, to + (size_t)i * step);
        return;
    }
    float *to = (float *)l->to + at;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        _mm512_mask_storeu_ps(to + (size_t)i * step, lanes, _mm512_add_ps(sums[i], bias));
}

// The outputs of n neighbouring units, AVX512_LANES elements each.
AVX512_INLINE void depthwise_fp16_sum_lanes(const struct depthwise_line *l, size_t in, size_t out,
                                            size_t o, const int n, const __mmask16 lanes)
{
    const float *taps = (const float *)l->taps + o;
    const __m512 bias = _mm512_loadu_ps(taps + l->n_taps * l->tap);
    __m512 sums[DEPTHWISE_UNROLL];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const uint16_t *x = (const uint16_t *)l->sources[k] + in + o;
        const __m512 tap = _mm512_loadu_ps(taps);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            sums[i] = _mm512_fmadd_ps(avx512_load_fp16(lanes, x + (size_t)i * l->in), tap, sums[i]);
    }
    depthwise_fp16_put(l, lanes, sums, bias, n, out + o);
}

AVX512_INLINE void depthwise_fp16_sum_all(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n)
{
    depthwise_fp16_sum_lanes(l, in, out, o, n, AVX512_ALL);
}

// Of units that are smaller than a vector.
AVX512_INLINE void depthwise_fp16_sum_tail(const struct depthwise_line *l, size_t in, size_t out,
                                           size_t o, const int n)
{
    depthwise_fp16_sum_lanes(l, in, out, o, n, AVX512_TAIL(l->out));
}

// The same where units are so many pixels, `step`, apart: each row's pixels are converted once.
AVX512_INLINE void depthwise_fp16_sum_window(const struct depthwise_line *l, size_t in, size_t out,
                                             size_t o, const int n, const int columns,
                                             const int step)
{
    const float *taps = (const float *)l->taps + o;
    const __m512 bias = _mm512_loadu_ps(taps + l->n_taps * l->tap);
    __m512 sums[DEPTHWISE_UNROLL], x[2 * DEPTHWISE_UNROLL + MAX_COLUMNS];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t k = 0; k < l->n_taps; k += (size_t)columns) {
        const uint16_t *row = (const uint16_t *)l->sources[k] + in + o;
#pragma GCC unroll 24
        for (int i = 0; i < (n - 1) * step + columns; i++)
            x[i] = avx512_load_fp16(AVX512_ALL, row + (size_t)i * l->pixel);
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++, taps += l->tap) {
            const __m512 tap = _mm512_loadu_ps(taps);
#pragma GCC unroll 8
            for (int i = 0; i < n; i++)
                sums[i] = _mm512_fmadd_ps(x[i * step + j], tap, sums[i]);
        }
    }
    depthwise_fp16_put(l, AVX512_ALL, sums, bias, n, out + o);
}

#define WINDOW(columns, step)                                                                      \
    AVX512_INLINE void depthwise_fp16_sum_##columns##_##step(                                      \
        const struct depthwise_line *l, size_t in, size_t out, size_t o, const int n)              \
    {                                                                                              \
        depthwise_fp16_sum_window(l, in, out, o, n, columns, step);                                \
    }                                                                                              \
    KERNEL_AVX512 static void depthwise_fp16_line_##columns##_##step(                              \
        const struct depthwise_line *l)                                                            \
    {                                                                                              \
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_##columns##_##step);                \
    }

WINDOW(3, 1)
WINDOW(3, 2)
WINDOW(5, 1)
WINDOW(5, 2)

KERNEL_AVX512 static void depthwise_sum_fp16_512(const struct depthwise_line *l)
{
    if (l->out < AVX512_LANES)
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_tail);
    else
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_all);
}

#define PARTS (CONV_LANES / AVX2_LANES)

// As depthwise_fp16_put(), of `parts` vectors of each unit.
AVX2_INLINE void depthwise_fp16_put_few(const struct depthwise_line *l, const __m256 *sums,
                                        const float *bias, const int n, const int parts, size_t at)
{
    const struct clamp_bounds bounds = l->bounds;
    const size_t step = l->out;
    if (l->outputs) {
        uint16_t *to = (uint16_t *)l->to + at;
#pragma GCC unroll 8
        for (int i = 0; i < n * parts; i++) {
            const int v = i % parts * AVX2_LANES;
            avx2_store_fp16(_mm256_add_ps(sums[i], _mm256_loadu_ps(bias + v)), bounds,
                            to + (size_t)(i / parts) * step + v);
        }
        return;
    }
    float *to = (float *)l->to + at;
#pragma GCC unroll 8
    for (int i = 0; i < n * parts; i++) {
        const int v = i % parts * AVX2_LANES;
        _mm256_storeu_ps(to + (size_t)(i / parts) * step + v,
                         _mm256_add_ps(sums[i], _mm256_loadu_ps(bias + v)));
    }
}

// Of units of CONV_LANES elements or more. Three taps are unrolled; nine would take longer.
AVX2_INLINE void depthwise_fp16_sum_taps(const struct depthwise_line *l, const size_t n_taps,
                                         size_t in, size_t out, size_t o, const int n)
{
    const float *taps = (const float *)l->taps + o, *bias = taps + n_taps * l->tap;
    __m256 sums[DEPTHWISE_FEW * PARTS];
#pragma GCC unroll 8
    for (int i = 0; i < n * PARTS; i++)
        sums[i] = _mm256_setzero_ps();
    for (size_t k = 0; k < n_taps; k++, taps += l->tap) {
        const uint16_t *x = (const uint16_t *)l->sources[k] + in + o;
#pragma GCC unroll 2
        for (int v = 0; v < PARTS; v++) {
            const __m256 tap = _mm256_loadu_ps(taps + v * AVX2_LANES);
#pragma GCC unroll 4
            for (int i = 0; i < n; i++)
                sums[i * PARTS + v] =
                    _mm256_fmadd_ps(avx2_load_fp16(x + (size_t)i * l->in + v * AVX2_LANES), tap,
                                    sums[i * PARTS + v]);
        }
    }
    depthwise_fp16_put_few(l, sums, bias, n, PARTS, out + o);
}

// As depthwise_fp16_sum_window(), one half of CONV_LANES after the other: with both there would be
// too few registers.
AVX2_INLINE void depthwise_fp16_sum_halves(const struct depthwise_line *l, size_t in, size_t out,
                                           size_t o, const int n, const int columns, const int step)
{
    for (size_t half = o; half < o + CONV_LANES; half += AVX2_LANES) {
        const float *taps = (const float *)l->taps + half;
        const float *bias = taps + l->n_taps * l->tap;
        __m256 sums[DEPTHWISE_FEW], x[2 * DEPTHWISE_FEW + MAX_COLUMNS];
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            sums[i] = _mm256_setzero_ps();
        for (size_t k = 0; k < l->n_taps; k += (size_t)columns) {
            const uint16_t *row = (const uint16_t *)l->sources[k] + in + half;
#pragma GCC unroll 16
            for (int i = 0; i < (n - 1) * step + columns; i++)
                x[i] = avx2_load_fp16(row + (size_t)i * l->pixel);
#pragma GCC unroll 8
            for (int j = 0; j < columns; j++, taps += l->tap) {
                const __m256 tap = _mm256_loadu_ps(taps);
#pragma GCC unroll 4
                for (int i = 0; i < n; i++)
                    sums[i] = _mm256_fmadd_ps(x[i * step + j], tap, sums[i]);
            }
        }
        depthwise_fp16_put_few(l, sums, bias, n, 1, out + half);
    }
}

AVX2_INLINE void depthwise_fp16_halves_5_1(const struct depthwise_line *l, size_t in, size_t out,
                                           size_t o, const int n)
{
    depthwise_fp16_sum_halves(l, in, out, o, n, 5, 1);
}

KERNEL_AVX2 static void depthwise_fp16_few_5_1(const struct depthwise_line *l)
{
    depthwise_each(l, DEPTHWISE_FEW, depthwise_fp16_halves_5_1);
}

AVX2_INLINE void depthwise_fp16_sum_parts(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n)
{
    depthwise_fp16_sum_taps(l, l->n_taps, in, out, o, n);
}

AVX2_INLINE void depthwise_fp16_sum_three(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n)
{
    depthwise_fp16_sum_taps(l, 3, in, out, o, n);
}

KERNEL_AVX2 static void depthwise_sum_fp16_256(const struct depthwise_line *l)
{
    if (l->n_taps == 3)
        depthwise_each(l, DEPTHWISE_FEW, depthwise_fp16_sum_three);
    else
        depthwise_each(l, DEPTHWISE_FEW, depthwise_fp16_sum_parts);
}

// By a window's own kernel.
static bool depthwise_fp16_by_window(const struct depthwise_line *l)
{
    static void (*const lines[2][2])(const struct depthwise_line *l) = {
        {depthwise_fp16_line_3_1, depthwise_fp16_line_3_2},
        {depthwise_fp16_line_5_1, depthwise_fp16_line_5_2}};
    const size_t step = l->in / l->pixel;
    if (l->in % l->pixel || l->out < CONV_LANES || !depthwise_fp16_has_window(l->columns, step))
        return false;
    (kernel_has_avx512() ? lines[l->columns == 5][step - 1] : depthwise_fp16_few_5_1)(l);
    return true;
}

void depthwise_sum_fp16(const struct depthwise_line *l)
{
    if (!depthwise_fp16_by_window(l))
        (kernel_has_avx512() ? depthwise_sum_fp16_512 : depthwise_sum_fp16_256)(l);
}
#else
void depthwise_sum_fp16(const struct depthwise_line *l)
{
    (void)l;
    abort(); // kernel_has_avx2() is never true
}
#endif
