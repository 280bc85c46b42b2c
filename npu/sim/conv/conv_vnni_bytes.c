// Sums of bytes, with AVX512-VNNI: window sums where the kernel has no lane to spare (conv_vnni.h).
//
//   sums[pixel] = Σ over segments, Σ over the segment's bytes: x
//
// Why it is fast: 64 bytes are added by one vpdpbusd with ones; 16 pixels have a register each, and
// are added across all at once, in 15 additions (of two shuffles each) instead of 16 times 4:
//
//   16 vectors [pixel][16 partial sums]  ->  8  ->  4  ->  2  ->  1 vector [16 pixels]
//
// Sums are exact. Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include <stdlib.h>

#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/simd/vnni.h"

#ifdef __x86_64__
#define PIXELS_AT_ONCE 16 // pixels

// Adds the first 64 of n bytes of each pixel. Behind the last pixel the last one is read again.
VNNI_INLINE void vnni_add_bytes(const uint8_t *x, size_t pitch, size_t last, size_t n,
                                __m512i *sums)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __mmask64 mask = n < 64 ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
#pragma GCC unroll 16
    for (size_t i = 0; i < PIXELS_AT_ONCE; i++) {
        vnni_add_products(&sums[i], _mm512_maskz_loadu_epi8(mask, x), ones);
        x += i < last ? pitch : 0;
    }
}

// The sums of all elements of each of 16 vectors: each round adds halves of two vectors and puts
// them side by side in one.
VNNI_INLINE __m512i vnni_add_across(__m512i *v)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 2
    for (int n = 2; n; n--)
#pragma GCC unroll 2
        for (int i = 0; i < n; i++)
            v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0x88),
                                    _mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return v[0];
}

VNNI_INLINE void vnni_sum_16(const struct vnni_bytes *b, size_t first, size_t last, int32_t *sums)
{
    __m512i v[PIXELS_AT_ONCE];
#pragma GCC unroll 16
    for (int i = 0; i < PIXELS_AT_ONCE; i++)
        v[i] = _mm512_setzero_si512();
    for (size_t i = 0; i < b->n_segments; i++) {
        const uint8_t *x = b->x + first * b->pitch + i * b->apart;
        for (size_t done = 0; done < b->segment; done += 64)
            vnni_add_bytes(x + done, b->pitch, last, b->segment - done, v);
    }
    _mm512_storeu_si512(sums + first, vnni_add_across(v));
}

// The last 16 pixels of many are moved back so that they end where all end.
VNNI void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    if (n < PIXELS_AT_ONCE) {
        vnni_sum_16(b, 0, n - 1, sums);
        return;
    }
    for (size_t i = 0; i < n; i += PIXELS_AT_ONCE)
        vnni_sum_16(b, i < n - PIXELS_AT_ONCE ? i : n - PIXELS_AT_ONCE, PIXELS_AT_ONCE - 1, sums);
}
#elif !defined(__aarch64__) // neon/conv_neon_sum.c
void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    (void)b, (void)n, (void)sums;
    abort(); // conv_vnni_fits() is never true
}
#endif
