// Depthwise convolutions from fp16 to fp16, with AVX512.
//
//   y[c] = fp16(clamp(Σ over taps k: x[k][c] * w[k][c] + bias[c]))    in floats, fused multiply-add
//
// Rounding: each tap once (fma), the bias once, the output once, to nearest, ties to even; bounds
// are applied before the output is rounded.
//
// Why it is fast: nothing is in memory between image and output. Eight units share the load of a
// tap; their 8 sums are in registers. Each tap converts its inputs again (vcvtph2ps from memory),
// which takes less time than writing and reading lines of floats as long as a pixel is under few
// taps: MAX_CONVERSIONS.
//
// Tests: test_sim_fp16, test_sim_cases_float16_conv.
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/simd/avx512.h"

#define MAX_CONVERSIONS 9 // of a pixel

bool depthwise_fits_fp16(const struct step *s, const struct conv *c, struct clamp_bounds *bounds)
{
    double taps = (double)c->window.kernel[0] * c->window.kernel[1] * c->oh * c->ow;
    return kernel_has_avx512() && taps <= (double)c->ih * c->iw * MAX_CONVERSIONS &&
           step_input(s, 0)->type == TENSOR_FLOAT16 && step_output(s, 0)->type == TENSOR_FLOAT16 &&
           clamp_bounds(s->node->post, s->node->n_post, bounds);
}

#ifdef KERNEL_AVX512
// The outputs of n neighbouring units, AVX512_LANES elements each.
AVX512_INLINE void depthwise_fp16_sum_lanes(const struct depthwise_line *l, size_t in, size_t out,
                                            size_t o, const int n)
{
    const __mmask16 lanes = (__mmask16)(l->out < AVX512_LANES ? AVX512_TAIL(l->out) : AVX512_ALL);
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

KERNEL_AVX512 void depthwise_sum_fp16(const struct depthwise_line *l)
{
    depthwise_each(l, DEPTHWISE_UNROLL, depthwise_fp16_sum_lanes);
}
#else
void depthwise_sum_fp16(const struct depthwise_line *l)
{
    (void)l;
    abort(); // kernel_has_avx512() is never true
}
#endif
