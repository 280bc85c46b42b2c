// The largest of up to five taps at once with AVX512 and AVX2, for which compilers take elements
// one by one where pixels lie apart: each vector of each tap is read once, and nothing of y.
//
//   taps   [a0 a1 …] [b0 b1 …] [c0 c1 …]  --max-->  --max-->  y
//
// vmaxps has its second operand where neither is larger (two zeros, or NaN), as
// `a > b ? a : b` has. fp16 is compared as integers of the same order (pool_join.c). Of a pixel's
// channels the last vector is moved back: that some are joined twice changes nothing.
//
// Tests: test_sim_cases_pool, test_sim_fp16.
#include "npu/sim/ops/pool/pool_largest.h"

#include "npu/sim/simd/kernel.h"

#ifdef KERNEL_AVX512
#include <immintrin.h>

// Without optimization GCC 14 has macros for some intrinsics, with conversions of their own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

// One vector at a time; `load`, `max` and `store` are of `vector`, whose elements are `type`.
#define LARGEST(name, target, type, vector, load, max, store)                                      \
    target static inline __attribute__((always_inline)) void name##_vector(                        \
        type *to, const type *const *taps, size_t at, const uint32_t n)                            \
    {                                                                                              \
        vector v = load(taps[0] + at);                                                             \
        _Pragma("GCC unroll 5") for (uint32_t k = 1; k < n; k++) v = max(v, load(taps[k] + at));   \
        store(to + at, v);                                                                         \
    }                                                                                              \
    target static inline __attribute__((always_inline)) void name##_pixels(                        \
        const struct pool_taps *t, const uint32_t n)                                               \
    {                                                                                              \
        const size_t lanes = sizeof(vector) / sizeof(type), channels = t->channels;                \
        const type *taps[POOL_FIRST_TAPS];                                                         \
        type *to = t->y;                                                                           \
        for (uint32_t k = 0; k < n; k++)                                                           \
            taps[k] = t->taps[k];                                                                  \
        for (size_t p = 0; p < t->pixels; p++, to += channels) {                                   \
            size_t i = 0;                                                                          \
            for (; i + lanes <= channels; i += lanes)                                              \
                name##_vector(to, taps, i, n);                                                     \
            if (i < channels)                                                                      \
                name##_vector(to, taps, channels - lanes, n);                                      \
            for (uint32_t k = 0; k < n; k++)                                                       \
                taps[k] += t->x_step;                                                              \
        }                                                                                          \
    }                                                                                              \
    target static void name(const struct pool_taps *t)                                             \
    {                                                                                              \
        if (t->n == 2)                                                                             \
            name##_pixels(t, 2);                                                                   \
        else if (t->n == 3)                                                                        \
            name##_pixels(t, 3);                                                                   \
        else                                                                                       \
            name##_pixels(t, POOL_FIRST_TAPS);                                                     \
    }

#define LOAD_512(p)     _mm512_loadu_si512(p)
#define STORE_512(p, v) _mm512_storeu_si512(p, v)
#define LOAD_256(p)     _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE_256(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define LOAD_128(p)     _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE_128(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)

// fp16 in the order of integers, and back.
#define ORDER_512(v)                                                                               \
    _mm512_xor_si512(v, _mm512_and_si512(_mm512_srai_epi16(v, 15), _mm512_set1_epi16(INT16_MAX)))
#define ORDER_256(v)                                                                               \
    _mm256_xor_si256(v, _mm256_and_si256(_mm256_srai_epi16(v, 15), _mm256_set1_epi16(INT16_MAX)))
#define LOAD_512_FP16(p)     ORDER_512(LOAD_512(p))
#define STORE_512_FP16(p, v) STORE_512(p, ORDER_512(v))
#define LOAD_256_FP16(p)     ORDER_256(LOAD_256(p))
#define STORE_256_FP16(p, v) STORE_256(p, ORDER_256(v))

LARGEST(f32_512, KERNEL_AVX512, float, __m512, _mm512_loadu_ps, _mm512_max_ps, _mm512_storeu_ps)
LARGEST(f32_256, KERNEL_AVX2, float, __m256, _mm256_loadu_ps, _mm256_max_ps, _mm256_storeu_ps)
LARGEST(i8_512, KERNEL_AVX512, int8_t, __m512i, LOAD_512, _mm512_max_epi8, STORE_512)
LARGEST(i8_256, KERNEL_AVX2, int8_t, __m256i, LOAD_256, _mm256_max_epi8, STORE_256)
LARGEST(i8_128, KERNEL_AVX2, int8_t, __m128i, LOAD_128, _mm_max_epi8, STORE_128)
LARGEST(f16_512, KERNEL_AVX512, int16_t, __m512i, LOAD_512_FP16, _mm512_max_epi16, STORE_512_FP16)
LARGEST(f16_256, KERNEL_AVX2, int16_t, __m256i, LOAD_256_FP16, _mm256_max_epi16, STORE_256_FP16)
#pragma GCC diagnostic pop

bool pool_first_taps(enum tensor_type type, const struct pool_taps *t)
{
    bool wide = kernel_has_avx512();
    size_t size = t->channels * tensor_type_size(type);
    if (!kernel_has_avx2() || size < (type == TENSOR_INT8 ? sizeof(__m128i) : sizeof(__m256i)))
        return false;
    wide = wide && size >= sizeof(__m512i);
    if (type == TENSOR_FLOAT16)
        (wide ? f16_512 : f16_256)(t);
    else if (type != TENSOR_INT8)
        (wide ? f32_512 : f32_256)(t);
    else
        (wide ? i8_512 : size >= sizeof(__m256i) ? i8_256 : i8_128)(t);
    return true;
}
#else
bool pool_first_taps(enum tensor_type type, const struct pool_taps *t)
{
    (void)type, (void)t;
    return false;
}
#endif
