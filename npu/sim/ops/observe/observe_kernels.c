// A chunk is read once: bounds and sums are of vectors that stay in registers, sums as floats for
// at most 64 rows. For tails bounds are of parts of 256 values or so, four of which become numbers
// together.
#include "npu/sim/ops/observe/observe_kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "npu/sim/simd/avx512.h"

#define COLUMNS 8  // vectors whose sums stay in registers
#define FEW     64 // values that are looked at one by one where some lies in a tail

// ---- chunks: bounds and sums of `rows` rows of n lanes, or of a part of one channel ----

#ifdef KERNEL_AVX512
// Adds up what is finite, and turns into NaN else.
AVX512_INLINE void observe_add_lanes(double *sums, __m512 s, __m512 *check)
{
    *check = _mm512_fmadd_ps(s, _mm512_setzero_ps(), *check);
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(s));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(s, 1));
    _mm512_storeu_pd(sums, _mm512_add_pd(_mm512_loadu_pd(sums), low));
    _mm512_storeu_pd(sums + 8, _mm512_add_pd(_mm512_loadu_pd(sums + 8), high));
}

// A vector that is used several times is loaded once: compilers would load it for each use, and one
// load a cycle is all there is.
AVX512_INLINE __m512i observe_load(const float *v)
{
    __m512i x = _mm512_loadu_si512(v);
    __asm__("" : "+v"(x));
    return x;
}

// Bounds as integers, while they are found. Of floats as integers the largest signed one is the
// largest float, the largest unsigned one the least (observer_bounds_of()), and these take other
// units of the processor than sums do. A part without positive or without negative values has some
// number of the other sign in its place: no tail asks for it, and looking_ends() finds what the
// tensor's own end is.
struct observe_words {
    __m512i low, high;
};

AVX512_INLINE struct observe_words observe_words_begin(void)
{
    return (struct observe_words){_mm512_setzero_si512(), _mm512_set1_epi32(INT32_MIN)};
}

AVX512_INLINE void observe_words_end(struct observe_words w, struct observe_bounds *b)
{
    _mm512_storeu_ps(b->min, _mm512_min_ps(_mm512_loadu_ps(b->min), _mm512_castsi512_ps(w.low)));
    _mm512_storeu_ps(b->max, _mm512_max_ps(_mm512_loadu_ps(b->max), _mm512_castsi512_ps(w.high)));
}

// One vector of two, whose elements follow each other in turn: of each two the larger one.
AVX512_INLINE __m512i observe_fold(__m512i a, __m512i b)
{
    return _mm512_max_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

// Of four vectors the largest element in each fourth.
AVX512_INLINE __m512i observe_fold_four(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i first = observe_fold(a, b), second = observe_fold(c, d);
    return _mm512_max_epi32(_mm512_unpacklo_epi64(first, second),
                            _mm512_unpackhi_epi64(first, second));
}

// Bounds of the next `n` of four parts, which end at `ends`: the lanes of all of them at once, the
// least as the largest of what has the other sign. False: some value is not finite.
AVX512_INLINE bool observe_put_parts(struct observe_marks *m, const struct observe_words *w,
                                     const uint32_t *ends, uint32_t n)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    __m512i most = observe_fold_four(w[0].high, w[1].high, w[2].high, w[3].high);
    __m512i least =
        observe_fold_four(_mm512_xor_si512(w[0].low, sign), _mm512_xor_si512(w[1].low, sign),
                          _mm512_xor_si512(w[2].low, sign), _mm512_xor_si512(w[3].low, sign));
    __m512i all = _mm512_max_epi32(_mm512_shuffle_i32x4(most, least, 0x44),
                                   _mm512_shuffle_i32x4(most, least, 0xee));
    all = _mm512_max_epi32(all, _mm512_shuffle_i32x4(all, all, 0xb1));
    __m128i low = _mm_xor_si128(_mm512_extracti32x4_epi32(all, 2), _mm512_castsi512_si128(sign));
    memcpy(m->end + m->n, ends, 4 * sizeof *ends);
    _mm_storeu_ps(m->least + m->n, _mm_castsi128_ps(low));
    _mm_storeu_ps(m->most + m->n, _mm_castsi128_ps(_mm512_castsi512_si128(all)));
    m->n += n;
    return !_mm512_cmp_epi32_mask(all, _mm512_set1_epi32(0x7f800000), _MM_CMPINT_NLT);
}

// Columns of `k` vectors, k a constant, read row by row, so that memory is read in order where they
// are all columns. A row's least and largest value is found before the bounds so far, which so wait
// for each other once a row.
AVX512_INLINE void observe_columns(const float *v, uint64_t rows, uint32_t n, uint32_t k,
                                   double *sums, struct observe_bounds *b, __m512 *check)
{
    struct observe_words w = observe_words_begin();
    __m512 sum[COLUMNS];
    for (uint32_t i = 0; i < k; i++)
        sum[i] = _mm512_setzero_ps();
    for (const float *end = v + rows * n; v < end; v += n) {
        __m512i x = observe_load(v), least = x, most = x;
        sum[0] = _mm512_add_ps(sum[0], _mm512_castsi512_ps(x));
        for (uint32_t i = 1; i < k; i++) {
            x = observe_load(v + (size_t)i * AVX512_LANES);
            least = _mm512_max_epu32(least, x);
            most = _mm512_max_epi32(most, x);
            sum[i] = _mm512_add_ps(sum[i], _mm512_castsi512_ps(x));
        }
        w.low = _mm512_max_epu32(w.low, least);
        w.high = _mm512_max_epi32(w.high, most);
    }
    for (uint32_t i = 0; i < k; i++)
        observe_add_lanes(sums + (size_t)i * AVX512_LANES, sum[i], check);
    observe_words_end(w, b);
}

// The same with bounds of parts that are `each` rows long, at v[from]; what is left is a shorter
// one.
AVX512_INLINE bool observe_columns_parts(const float *v, uint64_t from, uint64_t rows,
                                         uint32_t each, uint32_t k, double *sums,
                                         struct observe_marks *m)
{
    const uint32_t n = k * AVX512_LANES;
    const float *x = v + from, *end = x + rows * n;
    __m512 sum[COLUMNS], check = _mm512_setzero_ps();
    bool good = true;
    for (uint32_t i = 0; i < k; i++)
        sum[i] = _mm512_setzero_ps();
    while (x < end) {
        struct observe_words w[4];
        uint32_t ends[4], count = 0;
#pragma GCC unroll 4
        for (uint32_t part = 0; part < 4; part++) {
            w[part] = observe_words_begin();
            count += x < end;
            for (uint32_t row = 0; row < each && x < end; row++, x += n) {
                __m512i one = observe_load(x), least = one, most = one;
                sum[0] = _mm512_add_ps(sum[0], _mm512_castsi512_ps(one));
                for (uint32_t i = 1; i < k; i++) {
                    one = observe_load(x + (size_t)i * AVX512_LANES);
                    least = _mm512_max_epu32(least, one);
                    most = _mm512_max_epi32(most, one);
                    sum[i] = _mm512_add_ps(sum[i], _mm512_castsi512_ps(one));
                }
                w[part].low = _mm512_max_epu32(w[part].low, least);
                w[part].high = _mm512_max_epi32(w[part].high, most);
            }
            ends[part] = (uint32_t)(x - v);
        }
        good &= observe_put_parts(m, w, ends, count);
    }
    for (uint32_t i = 0; i < k; i++)
        observe_add_lanes(sums + (size_t)i * AVX512_LANES, sum[i], &check);
    return good && _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) == 0;
}

KERNEL_AVX512 bool observe_rows_avx512(const float *v, uint64_t rows, uint32_t n, double *sums,
                                       struct observe_bounds *b)
{
    __m512 check = _mm512_setzero_ps();
    for (uint32_t c = 0, k; c < n; c += k * AVX512_LANES) {
        k = (n - c) / AVX512_LANES;
        k = k < COLUMNS ? k : COLUMNS;
        switch (k) {
#define COLUMNS_OF(k)                                                                              \
    case k:                                                                                        \
        observe_columns(v + c, rows, n, k, sums + c, b, &check);                                   \
        break
            COLUMNS_OF(1);
            COLUMNS_OF(2);
            COLUMNS_OF(3);
            COLUMNS_OF(4);
            COLUMNS_OF(5);
            COLUMNS_OF(6);
            COLUMNS_OF(7);
        default:
            observe_columns(v + c, rows, n, COLUMNS, sums + c, b, &check);
        }
    }
    return _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) == 0;
}

// Longer rows are one part.
KERNEL_AVX512 bool observe_rows_parts_avx512(const float *v, uint64_t from, uint64_t rows,
                                             uint32_t n, double *sums, struct observe_marks *m)
{
    struct observe_bounds b;
    uint32_t each = n < OBSERVE_MARK ? OBSERVE_MARK / n : 1;
    switch (n / AVX512_LANES) {
#define PARTS_OF(k)                                                                                \
    case k:                                                                                        \
        return observe_columns_parts(v, from, rows, each, k, sums, m)
        PARTS_OF(1);
        PARTS_OF(2);
        PARTS_OF(3);
        PARTS_OF(4);
        PARTS_OF(5);
        PARTS_OF(6);
        PARTS_OF(7);
        PARTS_OF(8);
    default:
        observe_bounds_begin(&b);
        if (!observe_rows_avx512(v + from, rows, n, sums, &b))
            return false;
        observe_marks_add_bounds(m, from, from + rows * n, &b);
        return true;
    }
}

KERNEL_AVX512 bool observe_plane_avx512(const float *v, uint64_t n, double *ret,
                                        struct observe_bounds *b)
{
    __m512 low = _mm512_loadu_ps(b->min), high = _mm512_loadu_ps(b->max);
    __m512 sum = _mm512_setzero_ps();
    for (uint64_t i = 0; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512 x = _mm512_maskz_loadu_ps(lanes, v + i);
        low = _mm512_mask_min_ps(low, lanes, low, x);
        high = _mm512_mask_max_ps(high, lanes, high, x);
        sum = _mm512_add_ps(sum, x);
    }
    float total = _mm512_reduce_add_ps(sum);
    _mm512_storeu_ps(b->min, low);
    _mm512_storeu_ps(b->max, high);
    *ret += (double)total;
    return fabsf(total) <= FLT_MAX;
}

// Of values whose channels do not matter, 64 at a time. NaN and infinite numbers are seen in the
// bounds, without a sum.
KERNEL_AVX512 bool observe_flat_avx512(const float *v, uint64_t n, struct observe_bounds *b)
{
    const __m512i infinite = _mm512_set1_epi32(0x7f800000), sign = _mm512_set1_epi32(INT32_MIN);
    struct observe_words w = observe_words_begin(), w2 = w;
    uint64_t i = 0;
    for (; n - i >= FEW; i += FEW) {
        __m512i p = observe_load(v + i), q = observe_load(v + i + 16);
        __m512i r = observe_load(v + i + 32), s = observe_load(v + i + 48);
        w.low = _mm512_max_epu32(w.low, _mm512_max_epu32(p, q));
        w.high = _mm512_max_epi32(w.high, _mm512_max_epi32(p, q));
        w2.low = _mm512_max_epu32(w2.low, _mm512_max_epu32(r, s));
        w2.high = _mm512_max_epi32(w2.high, _mm512_max_epi32(r, s));
    }
    for (; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512i x = _mm512_maskz_loadu_epi32(lanes, v + i);
        w.low = _mm512_max_epu32(w.low, x);
        w.high = _mm512_mask_max_epi32(w.high, lanes, w.high, x);
    }
    w.low = _mm512_max_epu32(w.low, w2.low);
    w.high = _mm512_max_epi32(w.high, w2.high);
    if (_mm512_cmp_epi32_mask(w.high, infinite, _MM_CMPINT_NLT) |
        _mm512_cmp_epu32_mask(w.low, _mm512_or_si512(sign, infinite), _MM_CMPINT_NLT))
        return false;
    observe_words_end(w, b);
    return true;
}

KERNEL_AVX512 bool observe_flat_parts_avx512(const float *v, uint64_t from, uint64_t end,
                                             struct observe_marks *m)
{
    bool good = true;
    while (from < end) {
        struct observe_words w[4];
        uint32_t ends[4], count = 0;
#pragma GCC unroll 4
        for (uint32_t part = 0; part < 4; part++) {
            uint64_t to = end - from < OBSERVE_MARK ? end : from + OBSERVE_MARK;
            w[part] = observe_words_begin();
            count += from < end;
            for (; to - from >= FEW; from += FEW) {
                __m512i p = observe_load(v + from), q = observe_load(v + from + 16);
                __m512i r = observe_load(v + from + 32), s = observe_load(v + from + 48);
                __m512i low = _mm512_max_epu32(_mm512_max_epu32(p, q), _mm512_max_epu32(r, s));
                __m512i high = _mm512_max_epi32(_mm512_max_epi32(p, q), _mm512_max_epi32(r, s));
                w[part].low = _mm512_max_epu32(w[part].low, low);
                w[part].high = _mm512_max_epi32(w[part].high, high);
            }
            for (; from < to; from = to - from < AVX512_LANES ? to : from + AVX512_LANES) {
                __mmask16 lanes = avx512_lanes(to - from);
                __m512i x = _mm512_maskz_loadu_epi32(lanes, v + from);
                w[part].low = _mm512_max_epu32(w[part].low, x);
                w[part].high = _mm512_mask_max_epi32(w[part].high, lanes, w[part].high, x);
            }
            ends[part] = (uint32_t)to;
        }
        good &= observe_put_parts(m, w, ends, count);
    }
    return good;
}

// The values of a vector that lie in a tail. A tail that became shorter meanwhile is looked at by
// sampling_tails_put().
KERNEL_AVX512 static void observe_put_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    __mmask16 lanes = avx512_lanes(n);
    __m512 x = _mm512_maskz_loadu_ps(lanes, v);
    uint32_t beyond = _mm512_mask_cmp_ps_mask(lanes, x, _mm512_set1_ps(t->low), _CMP_LT_OQ) |
                      _mm512_mask_cmp_ps_mask(lanes, x, _mm512_set1_ps(t->high), _CMP_GT_OQ);
    for (; beyond; beyond &= beyond - 1)
        sampling_tails_put(t, v[__builtin_ctz(beyond)]);
}

// The least and the largest of four vectors say whether one of them has such a value.
KERNEL_AVX512 void observe_tails_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    uint64_t at = 0;
    for (; n - at >= FEW; at += FEW) {
        __m512 a = _mm512_loadu_ps(v + at), b = _mm512_loadu_ps(v + at + 16);
        __m512 c = _mm512_loadu_ps(v + at + 32), d = _mm512_loadu_ps(v + at + 48);
        __m512 least = _mm512_min_ps(_mm512_min_ps(a, b), _mm512_min_ps(c, d));
        __m512 most = _mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d));
        if (_mm512_cmp_ps_mask(least, _mm512_set1_ps(t->low), _CMP_LT_OQ) |
            _mm512_cmp_ps_mask(most, _mm512_set1_ps(t->high), _CMP_GT_OQ))
            for (uint64_t i = 0; i < FEW; i += AVX512_LANES)
                observe_put_avx512(t, v + at + i, AVX512_LANES);
    }
    for (; at < n; at += AVX512_LANES)
        observe_put_avx512(t, v + at, n - at);
}
#else
void observe_tails_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    sampling_tails_add(t, v, n);
}

bool observe_rows_avx512(const float *v, uint64_t rows, uint32_t n, double *sums,
                         struct observe_bounds *b)
{
    (void)v, (void)rows, (void)n, (void)sums, (void)b;
    return false;
}

bool observe_plane_avx512(const float *v, uint64_t n, double *ret, struct observe_bounds *b)
{
    (void)v, (void)n, (void)ret, (void)b;
    return false;
}

bool observe_flat_avx512(const float *v, uint64_t n, struct observe_bounds *b)
{
    (void)v, (void)n, (void)b;
    return false;
}
bool observe_flat_parts_avx512(const float *v, uint64_t from, uint64_t end, struct observe_marks *m)
{
    (void)v, (void)from, (void)end, (void)m;
    return false;
}

bool observe_rows_parts_avx512(const float *v, uint64_t from, uint64_t rows, uint32_t n,
                               double *sums, struct observe_marks *m)
{
    (void)v, (void)from, (void)rows, (void)n, (void)sums, (void)m;
    return false;
}
#endif
