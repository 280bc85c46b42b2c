// Sums and products of arrays of int8 as the chips round them (int8_binary.h), in floats that hold
// all integers that there are, with AVX2, AVX512 and NEON (int8_sum_neon.c) in few instructions.
// Compiled without contracted products: what is fused stands here as such.
//
// Tests: test_sim_int8, of all pairs.
#include "npu/sim/simd/binary/int8_sum.h"

#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

#define INTEGER  INT8_INTEGER
#define MAX_HELD INT8_MAX_HELD

bool int8_sum_fits(const struct graph_sum *sum)
{
    bool fits = fabs(int8_factor(sum->out)) * 4 * MAX_HELD < INT32_MAX;
    double product = 1;
    for (int i = 0; i < 2; i++) {
        double reach = fmax(fabs(sum->offset[i] - 128.0), fabs(sum->offset[i] + 127.0));
        double held = sum->operand[i].shift ? MAX_HELD : 2 * MAX_HELD; // not rounded
        reach *= fabs(int8_factor(sum->operand[i]));
        fits = fits && reach < held;
        product *= reach + 1;
    }
    return fits && (!sum->product || product < 4 * MAX_HELD);
}

static inline float int8_scaled(int32_t x, float factor, float integer)
{
    return fmaf((float)x, factor, integer) - integer;
}

// Sums, or products, of what both operands scaled to are below 2^24, so exact. Large results stay
// in order as floats' bits do, so they saturate.
static inline __attribute__((always_inline)) void
int8_sum_each(const struct graph_sum *sum, const bool product, int8_t low, const int8_t *restrict a,
              const int8_t *restrict b, size_t n, int8_t *restrict y)
{
    float first = (float)int8_factor(sum->operand[0]), second = (float)int8_factor(sum->operand[1]);
    float out = (float)int8_factor(sum->out), to = INTEGER + (float)sum->zp;
    float one = sum->operand[0].shift ? INTEGER : 0, two = sum->operand[1].shift ? INTEGER : 0;
    int32_t more[2] = {sum->offset[0], sum->offset[1]};
    int32_t min = int8_rounded(INTEGER + (float)low), max = int8_rounded(INTEGER + 127);
    for (size_t i = 0; i < n; i++) {
        float v = int8_scaled(a[i] + more[0], first, one),
              w = int8_scaled(b[i] + more[1], second, two);
        int32_t stored = int8_rounded(fmaf(product ? v * w : v + w, out, to));
        stored = stored > min ? stored : min;
        y[i] = (int8_t)(stored < max ? stored : max);
    }
}

KERNEL(void, int8_sum_all,
       (const struct graph_sum *sum, int8_t low, const int8_t *restrict a, const int8_t *restrict b,
        size_t n, int8_t *restrict y),
       (sum, low, a, b, n, y))
{
    if (sum->product)
        int8_sum_each(sum, true, low, a, b, n, y);
    else
        int8_sum_each(sum, false, low, a, b, n, y);
}

// With AVX512, 64 at a time, in half as many instructions as compilers make of the above:
//
//   rounded operand    fma(x + offset, factor, INTEGER)           the constant stays in it
//   exact one          fma(x, factor, offset * factor)            no addition, nothing to round
//   of a sum of both   the exact one's constant is INTEGER less, which takes it off again
//
// All of these are integers that floats hold. Four vectors are packed to one.
#ifdef KERNEL_AVX512
// An operand of 16 lanes: rounded by INTEGER, which stays in it; or exact, plus `more`.
struct sum_operand {
    __m512i offset;
    __m512 factor, more;
};

// `more`: added to an exact operand, which has INTEGER taken off for both.
AVX512_INLINE struct sum_operand int8_sum_operand(const struct graph_sum *sum, int k, float more)
{
    float factor = (float)int8_factor(sum->operand[k]);
    bool rounded = sum->operand[k].shift;
    return (struct sum_operand){
        .offset = _mm512_set1_epi32(rounded ? sum->offset[k] : 0),
        .factor = _mm512_set1_ps(factor),
        .more = _mm512_set1_ps(rounded ? INTEGER : (float)sum->offset[k] * factor + more)};
}

AVX512_INLINE __m512 int8_sum_load(const struct sum_operand *o, const bool rounded, const int8_t *x)
{
    __m512i v = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)x));
    if (rounded)
        v = _mm512_add_epi32(v, o->offset);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), o->factor, o->more);
}

// Both operands' sum or product. INTEGER is taken off again: off a sum once, with the exact one.
AVX512_INLINE __m512 int8_sum_combine(const struct sum_operand o[2], const bool product,
                                      const bool rounded[2], const int8_t *a, const int8_t *b)
{
    const __m512 integer = _mm512_set1_ps(INTEGER);
    __m512 v = int8_sum_load(&o[0], rounded[0], a), w = int8_sum_load(&o[1], rounded[1], b);
    const bool apart = !product && rounded[0] != rounded[1];
    if (rounded[0] && !apart)
        v = _mm512_sub_ps(v, integer);
    if (rounded[1] && !apart)
        w = _mm512_sub_ps(w, integer);
    return product ? _mm512_mul_ps(v, w) : _mm512_add_ps(v, w);
}

// Packs saturate above; below, where bits of negative floats would wrap, it is done before.
AVX512_INLINE void int8_sum_512(const struct graph_sum *sum, const bool product,
                                const bool first_rounded, const bool second_rounded, int8_t low,
                                const int8_t *a, const int8_t *b, size_t n, int8_t *y)
{
    const bool rounded[2] = {first_rounded, second_rounded};
    const bool apart = !product && first_rounded != second_rounded;
    const float more = apart ? -INTEGER : 0;
    const struct sum_operand o[2] = {int8_sum_operand(sum, 0, more),
                                     int8_sum_operand(sum, 1, more)};
    const __m512 out = _mm512_set1_ps((float)int8_factor(sum->out)),
                 to = _mm512_set1_ps(INTEGER + (float)sum->zp);
    const __m512i min = _mm512_set1_epi32(int8_rounded(INTEGER + (float)low)),
                  zero = _mm512_set1_epi32(int8_rounded(INTEGER)),
                  in_order =
                      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (size_t i = 0; i < n; i += 4 * AVX512_LANES) {
        __m512i v[4];
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            size_t at = i + k * AVX512_LANES;
            __m512 real =
                _mm512_fmadd_ps(int8_sum_combine(o, product, rounded, a + at, b + at), out, to);
            v[k] = _mm512_sub_epi32(_mm512_max_epi32(_mm512_castps_si512(real), min), zero);
        }
        __m512i packed =
            _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
        _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(in_order, packed));
    }
}

// The same with AVX2, 32 at a time, in the same operations: so the two give the same bits, and what
// is said of vectors of 16 above holds of those of 8.
struct sum_operand_avx2 {
    __m256i offset;
    __m256 factor, more;
};

AVX2_INLINE struct sum_operand_avx2 int8_sum_operand_avx2(const struct graph_sum *sum, int k,
                                                          float more)
{
    float factor = (float)int8_factor(sum->operand[k]);
    bool rounded = sum->operand[k].shift;
    return (struct sum_operand_avx2){
        .offset = _mm256_set1_epi32(rounded ? sum->offset[k] : 0),
        .factor = _mm256_set1_ps(factor),
        .more = _mm256_set1_ps(rounded ? INTEGER : (float)sum->offset[k] * factor + more)};
}

AVX2_INLINE __m256 int8_sum_load_avx2(const struct sum_operand_avx2 *o, const bool rounded,
                                      const int8_t *x)
{
    __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)x));
    if (rounded)
        v = _mm256_add_epi32(v, o->offset);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), o->factor, o->more);
}

AVX2_INLINE __m256 int8_sum_combine_avx2(const struct sum_operand_avx2 o[2], const bool product,
                                         const bool rounded[2], const int8_t *a, const int8_t *b)
{
    const __m256 integer = _mm256_set1_ps(INTEGER);
    __m256 v = int8_sum_load_avx2(&o[0], rounded[0], a),
           w = int8_sum_load_avx2(&o[1], rounded[1], b);
    const bool apart = !product && rounded[0] != rounded[1];
    if (rounded[0] && !apart)
        v = _mm256_sub_ps(v, integer);
    if (rounded[1] && !apart)
        w = _mm256_sub_ps(w, integer);
    return product ? _mm256_mul_ps(v, w) : _mm256_add_ps(v, w);
}

// As int8_sum_512().
AVX2_INLINE void int8_sum_256(const struct graph_sum *sum, const bool product,
                              const bool first_rounded, const bool second_rounded, int8_t low,
                              const int8_t *a, const int8_t *b, size_t n, int8_t *y)
{
    const bool rounded[2] = {first_rounded, second_rounded};
    const bool apart = !product && first_rounded != second_rounded;
    const float more = apart ? -INTEGER : 0;
    const struct sum_operand_avx2 o[2] = {int8_sum_operand_avx2(sum, 0, more),
                                          int8_sum_operand_avx2(sum, 1, more)};
    const __m256 out = _mm256_set1_ps((float)int8_factor(sum->out)),
                 to = _mm256_set1_ps(INTEGER + (float)sum->zp);
    const __m256i min = _mm256_set1_epi32(int8_rounded(INTEGER + (float)low)),
                  zero = _mm256_set1_epi32(int8_rounded(INTEGER));
    for (size_t i = 0; i < n; i += 4 * AVX2_LANES) {
        __m256i v[4];
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            size_t at = i + k * AVX2_LANES;
            __m256 real = _mm256_fmadd_ps(
                int8_sum_combine_avx2(o, product, rounded, a + at, b + at), out, to);
            v[k] = _mm256_sub_epi32(_mm256_max_epi32(_mm256_castps_si256(real), min), zero);
        }
        avx2_store_packed(v, y + i);
    }
}

// Which operands are rounded is a constant to each kernel, so that a loop asks nothing.
#define EACH(kernel, product)                                                                      \
    if (first && second)                                                                           \
        kernel(sum, product, true, true, low, a, b, n, y);                                         \
    else if (first)                                                                                \
        kernel(sum, product, true, false, low, a, b, n, y);                                        \
    else if (second)                                                                               \
        kernel(sum, product, false, true, low, a, b, n, y);                                        \
    else                                                                                           \
        kernel(sum, product, false, false, low, a, b, n, y)

// n is a multiple of 64.
KERNEL_AVX512 static void int8_sum_vectors_512(const struct graph_sum *sum, int8_t low,
                                               const int8_t *a, const int8_t *b, size_t n,
                                               int8_t *y)
{
    bool first = sum->operand[0].shift, second = sum->operand[1].shift;
    if (sum->product) {
        EACH(int8_sum_512, true);
    } else {
        EACH(int8_sum_512, false);
    }
}

// n is a multiple of 32.
KERNEL_AVX2 static void int8_sum_vectors_256(const struct graph_sum *sum, int8_t low,
                                             const int8_t *a, const int8_t *b, size_t n, int8_t *y)
{
    bool first = sum->operand[0].shift, second = sum->operand[1].shift;
    if (sum->product) {
        EACH(int8_sum_256, true);
    } else {
        EACH(int8_sum_256, false);
    }
}
#undef EACH

// n is a multiple of SUM_VECTORS, and int8_sum_fits_vectors().
static void int8_sum_vectors(const struct graph_sum *sum, int8_t low, const int8_t *a,
                             const int8_t *b, size_t n, int8_t *y)
{
    (kernel_has_avx512() ? int8_sum_vectors_512 : int8_sum_vectors_256)(sum, low, a, b, n, y);
}
#define SUM_VECTORS      (4 * AVX512_LANES) // a multiple of what either takes
#define INT8_HAS_VECTORS kernel_has_avx2()
#elif defined(__aarch64__)
#define SUM_VECTORS      INT8_SUM_NEON
#define INT8_HAS_VECTORS true
#define int8_sum_vectors int8_sum_neon
#else
#define SUM_VECTORS      1
#define INT8_HAS_VECTORS false
#define int8_sum_vectors int8_sum_all
#endif

// Whether floats hold what is exact with INTEGER taken off.
static bool int8_sum_fits_vectors(const struct graph_sum *sum)
{
    bool fits = INT8_HAS_VECTORS;
    for (int i = 0; i < 2; i++) {
        double reach = fmax(fabs(sum->offset[i] - 128.0), fabs(sum->offset[i] + 127.0));
        fits = fits && reach < INT16_MAX && reach * fabs(int8_factor(sum->operand[i])) < MAX_HELD;
    }
    return fits;
}

#define SUM_CHUNK 4096 // y may be an operand

void int8_sum(const struct graph_sum *sum, int8_t low, const void *a, const void *b, size_t n,
              void *y)
{
    int8_t part[SUM_CHUNK];
    size_t i = int8_sum_fits_vectors(sum) ? n / SUM_VECTORS * SUM_VECTORS : 0;
    if (i)
        int8_sum_vectors(sum, low, a, b, i, y);
    for (; i < n; i += SUM_CHUNK) {
        size_t count = n - i < SUM_CHUNK ? n - i : SUM_CHUNK;
        int8_sum_all(sum, low, (const int8_t *)a + i, (const int8_t *)b + i, count, part);
        memcpy((int8_t *)y + i, part, count);
    }
}
