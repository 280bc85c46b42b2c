// The innermost loops of convolutions with one filter for each channel, with AVX512-VNNI.
#include <stdlib.h>

#include "npu/sim/conv_depthwise.h"

#ifdef __x86_64__
#include <immintrin.h>

#define VNNI   __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))

// The compiler's own function for it makes gcc copy sums to memory and back each time.
VNNI INLINE void add_products(__m512i *sums, __m512i taps, __m512i x)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(taps), "v"(x));
}

// The sums of n neighbours, CONV_LANES elements each, and those of their windows.
VNNI INLINE void sum_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                           const int n)
{
    const int32_t *taps = (const int32_t *)l->taps + o;
    const __m512i ones = _mm512_set1_epi8(1), least = _mm512_loadu_si512(l->least + o);
    __m512i sums[DEPTHWISE_TOGETHER], windows[DEPTHWISE_TOGETHER];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = windows[i] = _mm512_setzero_si512();
    for (size_t y = 0; y < l->n_rows; y++) {
        const int32_t *x = (const int32_t *)l->rows[y] + in + o;
        for (size_t k = 0; k < l->n_columns; k++, x += l->column, taps += l->tap) {
            __m512i tap = _mm512_loadu_si512(taps);
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) {
                __m512i four = _mm512_loadu_si512(x + (size_t)i * l->in);
                add_products(&sums[i], tap, four);
                add_products(&windows[i], ones, four);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        _mm512_storeu_si512(l->sums + out + o + (size_t)i * l->out,
                            _mm512_add_epi32(sums[i], _mm512_mullo_epi32(windows[i], least)));
}

VNNI INLINE void sum_units(const struct depthwise_line *l, size_t first, const int n)
{
    size_t o = 0, in = first * l->in, out = first * l->out;
    for (; o + CONV_LANES <= l->out; o += CONV_LANES)
        sum_lanes(l, in, out, o, n);
    if (o < l->out)
        sum_lanes(l, in, out, o ? l->out - CONV_LANES : 0, n);
}

VNNI void depthwise_sum_fours(const struct depthwise_line *l, size_t first, size_t n)
{
    if (n == DEPTHWISE_TOGETHER)
        sum_units(l, first, DEPTHWISE_TOGETHER);
    else
        sum_units(l, first, 1);
}

VNNI void depthwise_rest_of_fours(const struct depthwise_line *l, size_t at)
{
    sum_lanes(l, at, at, 0, 1);
}
#else
void depthwise_sum_fours(const struct depthwise_line *l, size_t first, size_t n)
{
    (void)l, (void)first, (void)n;
    abort(); // dnn_has_vnni() is never true
}

void depthwise_rest_of_fours(const struct depthwise_line *l, size_t at)
{
    (void)l, (void)at;
    abort();
}
#endif
