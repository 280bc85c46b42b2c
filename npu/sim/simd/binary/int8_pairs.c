// Sums of bytes by pairs (int8_pairs.h), with AVX2 and AVX512:
//
//   32 bytes of a and b -> words -> pairs (a, b)                vpmovsxbw, vpunpck[lh]wd
//   sums  = a * factor[0] + b * factor[1] + more                vpmaddwd, vpaddd
//   y     = sums * out + to, of whose bits the lowest are left  vcvtdq2ps, vfmadd, vpsubd, packs
//
// Half the instructions of int8_sum(), which scales each operand by itself, since it rounds there.
// Most operands of the chip need no rounding: their factors are integers, or halves of them. What
// is rounded to the even integer there moves an output that lies next to a tie, or none: whether
// there is such a pair is not calculated but looked at, when a model is loaded.
//
// Compiled without contracted products. Tests: test_sim_int8.
#include "npu/sim/simd/binary/int8_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/binary/int8_sum.h"

#define BYTES    256
#define MOST     (1 << 20) // outputs before they saturate, so that floats have units of 1
#define HALVES   4         // factors that are multiples of 2^-HALVES are exact
#define NEGATIVE (-32768)  // a factor whose opposite is none

#ifdef KERNEL_AVX512
#define LANES_512 64
#define LANES_256 32

AVX512_INLINE __m512i pairs_round_512(const struct int8_pairs *p, __m512i pairs)
{
    const __m512i factors = _mm512_set1_epi32(
        (int32_t)((uint32_t)(uint16_t)p->factor[1] << 16 | (uint16_t)p->factor[0]));
    __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(pairs, factors), _mm512_set1_epi32(p->more));
    __m512 v =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(p->out), _mm512_set1_ps(p->to));
    return _mm512_sub_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(int8_rounded(INT8_INTEGER)));
}

// 32 outputs as words: unpacking and packing leave them in their order.
AVX512_INLINE __m512i pairs_words_512(const struct int8_pairs *p, const int8_t *a, const int8_t *b)
{
    __m512i v = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)a));
    __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)b));
    return _mm512_packs_epi32(pairs_round_512(p, _mm512_unpacklo_epi16(v, w)),
                              pairs_round_512(p, _mm512_unpackhi_epi16(v, w)));
}

KERNEL_AVX512 static size_t pairs_sum_512(const struct int8_pairs *call, const int8_t *a,
                                          const int8_t *b, size_t n, int8_t *y)
{
    const struct int8_pairs p = *call; // a copy, which no store changes
    const __m512i in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    size_t i = 0;
    for (; i + LANES_512 <= n; i += LANES_512) {
        __m512i first = pairs_words_512(&p, a + i, b + i);
        __m512i second = pairs_words_512(&p, a + i + LANES_512 / 2, b + i + LANES_512 / 2);
        __m512i v = _mm512_permutexvar_epi64(in_order, _mm512_packs_epi16(first, second));
        _mm512_storeu_si512(y + i, _mm512_max_epi8(v, _mm512_set1_epi8(p.low)));
    }
    return i;
}

AVX2_INLINE __m256i pairs_round_256(const struct int8_pairs *p, __m256i pairs)
{
    const __m256i factors = _mm256_set1_epi32(
        (int32_t)((uint32_t)(uint16_t)p->factor[1] << 16 | (uint16_t)p->factor[0]));
    __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(pairs, factors), _mm256_set1_epi32(p->more));
    __m256 v =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(p->out), _mm256_set1_ps(p->to));
    return _mm256_sub_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(int8_rounded(INT8_INTEGER)));
}

// The same of 16.
AVX2_INLINE __m256i pairs_words_256(const struct int8_pairs *p, const int8_t *a, const int8_t *b)
{
    __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)a));
    __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)b));
    return _mm256_packs_epi32(pairs_round_256(p, _mm256_unpacklo_epi16(v, w)),
                              pairs_round_256(p, _mm256_unpackhi_epi16(v, w)));
}

KERNEL_AVX2 static size_t pairs_sum_256(const struct int8_pairs *call, const int8_t *a,
                                        const int8_t *b, size_t n, int8_t *y)
{
    const struct int8_pairs p = *call;
    size_t i = 0;
    for (; i + LANES_256 <= n; i += LANES_256) {
        __m256i first = pairs_words_256(&p, a + i, b + i);
        __m256i second = pairs_words_256(&p, a + i + LANES_256 / 2, b + i + LANES_256 / 2);
        __m256i v = _mm256_permute4x64_epi64(_mm256_packs_epi16(first, second), 0xd8);
        _mm256_storeu_si256((void *)(y + i), _mm256_max_epi8(v, _mm256_set1_epi8(p.low)));
    }
    return i;
}

size_t int8_pairs_sum(const struct int8_pairs *p, const void *a, const void *b, size_t n, void *y)
{
    return (kernel_has_avx512() ? pairs_sum_512 : pairs_sum_256)(p, a, b, n, y);
}

// What factors are multiplied by: so that they are integers, else so that they are as large as they
// can be.
static double pairs_unit(double first, double second)
{
    const double most = fmax(fabs(first), fabs(second));
    double unit = 1;
    for (int i = 0; i < HALVES; i++, unit *= 2)
        if (unit * first == rint(unit * first) && unit * second == rint(unit * second))
            break;
    return unit * most <= -NEGATIVE ? unit : -(NEGATIVE + 1) / most;
}

static bool pairs_are_right(const struct graph_sum *sum, const struct int8_pairs *p)
{
    int8_t a[BYTES], b[BYTES], want[BYTES], got[BYTES];
    for (int i = 0; i < BYTES; i++)
        b[i] = (int8_t)i;
    for (int i = 0; i < BYTES; i++) {
        memset(a, i, sizeof a);
        int8_sum(sum, p->low, a, b, BYTES, want);
        if (int8_pairs_sum(p, a, b, BYTES, got) != BYTES || memcmp(got, want, sizeof want) != 0)
            return false;
    }
    return true;
}

bool int8_pairs_find(const struct graph_sum *sum, int8_t low, struct int8_pairs *ret)
{
    const double factors[2] = {int8_factor(sum->operand[0]), int8_factor(sum->operand[1])};
    double unit = pairs_unit(factors[0], factors[1]), more = 0, reach = fabs((double)sum->zp);
    for (int i = 0; i < 2; i++) {
        more += sum->offset[i] * factors[i];
        reach += (fabs((double)sum->offset[i]) + 128) * fabs(factors[i] * int8_factor(sum->out));
    }
    if (!kernel_has_avx2() || sum->product || !(reach < MOST) || !(unit > 0) ||
        !(fabs(more * unit) < INT32_MAX / 2))
        return false;
    if (unit * fmax(factors[0], factors[1]) > INT16_MAX) // what is 2^15 has an opposite
        unit = -unit;
    for (int i = 0; i < 2; i++) {
        double factor = rint(factors[i] * unit);
        if (factor < INT16_MIN || factor > INT16_MAX)
            return false;
        ret->factor[i] = (int16_t)factor;
    }
    ret->more = (int32_t)rint(more * unit);
    ret->out = (float)(int8_factor(sum->out) / unit);
    ret->to = INT8_INTEGER + (float)sum->zp;
    ret->low = low;
    return pairs_are_right(sum, ret);
}
#else
bool int8_pairs_find(const struct graph_sum *sum, int8_t low, struct int8_pairs *ret)
{
    (void)sum, (void)low, (void)ret;
    return false;
}

size_t int8_pairs_sum(const struct int8_pairs *p, const void *a, const void *b, size_t n, void *y)
{
    (void)p, (void)a, (void)b, (void)n, (void)y;
    abort(); // int8_pairs_find() is never true
}
#endif
