// Depthwise convolutions from fp16 to fp16, with AVX512 or AVX2.
//
//   y[c] = fp16(clamp(Σ over taps k: x[k][c] * w[k][c] + bias[c]))    in floats, fused multiply-add
//
// Rounding: each tap once (fma), the bias once, the output once, to nearest, ties to even; bounds
// are applied before the output is rounded.
//
// Why it is fast: nothing is in memory between image and output. Eight units (with AVX2 four)
// share the load of a tap; their 8 sums of vectors are in registers. Each tap converts its inputs
// again (vcvtph2ps from memory), which takes less time than writing and reading lines of floats as
// long as a pixel is under few taps: MAX_CONVERSIONS.
//
// Tests: test_sim_fp16, test_sim_cases_float16_conv.
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

#define MAX_CONVERSIONS 9 // of a pixel

bool depthwise_fits_fp16(const struct step *s, const struct conv *c, struct clamp_bounds *bounds)
{
    double taps = (double)c->window.kernel[0] * c->window.kernel[1] * c->oh * c->ow;
    bool lanes = kernel_has_avx512() || (kernel_has_avx2() && c->oc >= CONV_LANES);
    return lanes && taps <= (double)c->ih * c->iw * MAX_CONVERSIONS &&
           step_input(s, 0)->type == TENSOR_FLOAT16 && step_output(s, 0)->type == TENSOR_FLOAT16 &&
           clamp_bounds(s->node->post, s->node->n_post, bounds);
}

#ifdef KERNEL_AVX512
// The outputs of n neighbouring units, AVX512_LANES elements each.
AVX512_INLINE void depthwise_fp16_sum_lanes(const struct depthwise_line *l, size_t in, size_t out,
                                            size_t o, const int n, const __mmask16 lanes)
{
    const float *taps = (const float *)l->taps + o;
    const __m512 bias = _mm512_loadu_ps(taps + l->n_taps * l->tap);
    const struct clamp_bounds bounds = l->bounds;
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
    uint16_t *to = (uint16_t *)l->to + out + o;
    const size_t step = l->out;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        avx512_store_fp16(lanes, _mm512_add_ps(sums[i], bias), bounds, to + (size_t)i * step);
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

KERNEL_AVX512 static void depthwise_sum_fp16_512(const struct depthwise_line *l)
{
    if (l->out < AVX512_LANES)
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_tail);
    else
        depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_all);
}

#define PARTS (CONV_LANES / AVX2_LANES)

// Of units of CONV_LANES elements or more. Three taps are unrolled; nine would take longer.
AVX2_INLINE void depthwise_fp16_sum_taps(const struct depthwise_line *l, const size_t n_taps,
                                         size_t in, size_t out, size_t o, const int n)
{
    const float *taps = (const float *)l->taps + o, *bias = taps + n_taps * l->tap;
    const struct clamp_bounds bounds = l->bounds;
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
    uint16_t *to = (uint16_t *)l->to + out + o;
#pragma GCC unroll 8
    for (int i = 0; i < n * PARTS; i++) {
        const int v = i % PARTS * AVX2_LANES;
        avx2_store_fp16(_mm256_add_ps(sums[i], _mm256_loadu_ps(bias + v)), bounds,
                        to + (size_t)(i / PARTS) * l->out + v);
    }
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

void depthwise_sum_fp16(const struct depthwise_line *l)
{
    (kernel_has_avx512() ? depthwise_sum_fp16_512 : depthwise_sum_fp16_256)(l);
}
#else
void depthwise_sum_fp16(const struct depthwise_line *l)
{
    (void)l;
    abort(); // kernel_has_avx2() is never true
}
#endif
