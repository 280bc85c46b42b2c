// Convolutions of halves with one filter for each channel, with AVX512: nothing lies in memory
// between the image and the output. Each tap converts the image again, which, as long as these are
// few for each pixel, takes less time than lines of floats.
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/simd/avx512.h"

#define MOST_TIMES 9 // that a pixel is converted

bool depthwise_takes_halves(const struct step *s, const struct conv *c, struct half_bounds *bounds)
{
    double taps = (double)c->window.kernel[0] * c->window.kernel[1] * c->oh * c->ow;
    return kernel_has_v4() && taps <= (double)c->ih * c->iw * MOST_TIMES &&
           step_input(s, 0)->type == TENSOR_FLOAT16 && step_output(s, 0)->type == TENSOR_FLOAT16 &&
           half_bounds(s->node->post, s->node->n_post, bounds);
}

#ifdef KERNEL_V4
// The sums of n neighbours, V4_LANES elements each, on their way to outputs.
V4_INLINE void sum_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                         const int n)
{
    const __mmask16 lanes = (__mmask16)(l->out < V4_LANES ? V4_REST(l->out) : V4_ALL);
    const float *taps = (const float *)l->taps + o;
    const __m512 bias = _mm512_loadu_ps(taps + l->n_taps * l->tap);
    const struct half_bounds bounds = l->bounds;
    __m512 sums[DEPTHWISE_TOGETHER];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const uint16_t *x = (const uint16_t *)l->places[k] + in + o;
        const __m512 tap = _mm512_loadu_ps(taps);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            sums[i] =
                _mm512_fmadd_ps(lanes_load_halves(lanes, x + (size_t)i * l->in), tap, sums[i]);
    }
    uint16_t *to = (uint16_t *)l->to + out + o;
    const size_t step = l->out;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        lanes_store_halves(lanes, _mm512_add_ps(sums[i], bias), bounds, to + (size_t)i * step);
}

KERNEL_V4 void depthwise_sum_halves(const struct depthwise_line *l)
{
    depthwise_each(l, sum_lanes);
}
#else
void depthwise_sum_halves(const struct depthwise_line *l)
{
    (void)l;
    abort(); // kernel_has_v4() is never true
}
#endif
