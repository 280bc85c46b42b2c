// Bytes scaled by integers of each channel (int8_binary.h), in floats that hold all of them.
// Bounded by loads: a byte takes eight bytes of parameters, so nothing else goes through memory.
// Compiled without contracted products: what is fused stands here as such.
//
//   stored = fma(fma(x, factor, term), out, INTEGER + zp)     rounded by INTEGER, which packs take
//   off
//
// Tests: test_sim_int8, of all bytes.
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/binary/int8_sum.h"

#define INTEGER INT8_INTEGER

bool int8_scale_exact_fits(int64_t factor, int64_t term, struct graph_scaling out)
{
    int64_t reach = 128 * (factor < 0 ? -factor : factor) + (term < 0 ? -term : term);
    return reach < 4 * INT8_MAX_HELD && fabs(int8_factor(out)) * 4 * INT8_MAX_HELD < INT32_MAX;
}

// What is the same for all elements.
struct int8_scaling {
    float out, to;
    int32_t min; // bits of the lowest result
};

// y may be x, as in all that follow.
KERNEL(void, int8_scale_all,
       (const struct int8_scaling *s, const int8_t *x, const float *restrict factor,
        const float *restrict term, size_t n, int8_t *y),
       (s, x, factor, term, n, y))
{
    const float out = s->out, to = s->to;
    const int32_t min = s->min, max = int8_rounded(INTEGER + 127);
    for (size_t i = 0; i < n; i++) {
        int32_t stored = int8_rounded(fmaf(fmaf(x[i], factor[i], term[i]), out, to));
        stored = stored > min ? stored : min;
        y[i] = (int8_t)(stored < max ? stored : max);
    }
}

#ifdef KERNEL_AVX512
#define EACH_512 (4 * AVX512_LANES)
#define EACH_256 (4 * AVX2_LANES)

// 16 results, as integers that are as low as they may be.
AVX512_INLINE __m512i int8_scale_lanes_512(const struct int8_scaling *s, const int8_t *x,
                                           const float *factor, const float *term)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)x)));
    v = _mm512_fmadd_ps(v, _mm512_loadu_ps(factor), _mm512_loadu_ps(term));
    v = _mm512_fmadd_ps(v, _mm512_set1_ps(s->out), _mm512_set1_ps(s->to));
    return _mm512_sub_epi32(_mm512_max_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(s->min)),
                            _mm512_set1_epi32(int8_rounded(INTEGER)));
}

// n is a multiple of EACH_512.
KERNEL_AVX512 static void int8_scale_vectors_512(const struct int8_scaling *call, const int8_t *x,
                                                 const float *factor, const float *term, size_t n,
                                                 int8_t *y)
{
    const struct int8_scaling s = *call; // a copy, which no store changes
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (size_t i = 0; i < n; i += EACH_512) {
        __m512i v[4];
#pragma GCC unroll 4
        for (size_t k = 0, at = i; k < 4; k++, at += AVX512_LANES)
            v[k] = int8_scale_lanes_512(&s, x + at, factor + at, term + at);
        __m512i packed =
            _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
        _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(in_order, packed));
    }
}

// The same of 8, and of a multiple of EACH_256.
AVX2_INLINE __m256i int8_scale_lanes_256(const struct int8_scaling *s, const int8_t *x,
                                         const float *factor, const float *term)
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)x)));
    v = _mm256_fmadd_ps(v, _mm256_loadu_ps(factor), _mm256_loadu_ps(term));
    v = _mm256_fmadd_ps(v, _mm256_set1_ps(s->out), _mm256_set1_ps(s->to));
    return _mm256_sub_epi32(_mm256_max_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(s->min)),
                            _mm256_set1_epi32(int8_rounded(INTEGER)));
}

KERNEL_AVX2 static void int8_scale_vectors_256(const struct int8_scaling *call, const int8_t *x,
                                               const float *factor, const float *term, size_t n,
                                               int8_t *y)
{
    const struct int8_scaling s = *call;
    for (size_t i = 0; i < n; i += EACH_256) {
        __m256i v[4];
#pragma GCC unroll 4
        for (size_t k = 0, at = i; k < 4; k++, at += AVX2_LANES)
            v[k] = int8_scale_lanes_256(&s, x + at, factor + at, term + at);
        avx2_store_packed(v, y + i);
    }
}

// The first elements, in whole vectors. Returns how many.
static size_t int8_scale_vectors(const struct int8_scaling *s, const int8_t *x, const float *factor,
                                 const float *term, size_t n, int8_t *y)
{
    size_t done = kernel_has_avx512() ? n / EACH_512 * EACH_512 : 0;
    if (done)
        int8_scale_vectors_512(s, x, factor, term, done, y);
    const size_t more = kernel_has_avx2() ? (n - done) / EACH_256 * EACH_256 : 0;
    if (more)
        int8_scale_vectors_256(s, x + done, factor + done, term + done, more, y + done);
    return done + more;
}
#else
static size_t int8_scale_vectors(const struct int8_scaling *s, const int8_t *x, const float *factor,
                                 const float *term, size_t n, int8_t *y)
{
    (void)s, (void)x, (void)factor, (void)term, (void)n, (void)y;
    return 0;
}
#endif

void int8_scale_exact(const void *x, const float *factor, const float *term, size_t n,
                      struct graph_scaling out, int32_t low, int32_t zp, void *y)
{
    const struct int8_scaling s = {.out = (float)int8_factor(out),
                                   .to = INTEGER + (float)zp,
                                   .min = int8_rounded(INTEGER + (float)low)};
    const size_t done = int8_scale_vectors(&s, x, factor, term, n, y);
    int8_scale_all(&s, (const int8_t *)x + done, factor + done, term + done, n - done,
                   (int8_t *)y + done);
}
