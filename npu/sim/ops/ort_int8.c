// The arithmetic of ort_int8.h. With ra = scale_a / scale_y and rb = scale_b / scale_y:
//
//   Add   y = rint(fma(b, rb, fma(a, ra, zp_y - ra zp_a - rb zp_b)))     all signed or unsigned
//   Mul   y = rint((a - zp_a) * (b - zp_b) * scale_a scale_b / scale_y + zp_y)   likewise
//   else  dequantizes both, adds or multiplies, quantizes the result     "apart"
//   mean  y = rint((Σx - n zp_x) * (scale_x / (scale_y n))) + zp_y     of all pixels
//   mean  y = rint(Σ((x - zp_x) scale_x) / n / scale_y + zp_y)           of a window, in its order
//
// A window's mean comes from its sum of integers, too, unless that lies so near to a tie that
// roundings on the way may matter: then the caller adds floats.
//
// Compiled without contraction (-ffp-contract=off): where ONNX Runtime fuses a product and a sum
// fmaf() stands here, and nowhere else. Rounding is to nearest even, saturating, on numbers as ONNX
// Runtime stores them. Loops are vector instructions by KERNEL. Tested by test_onnx_against.
#include "npu/sim/ops/ort_int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npu/sim/ops/quotient.h"
#include "npu/sim/simd/avx2.h"

// uint8 tensors are stored here as int8, moved by 128; this moves them back to ONNX Runtime's
// value.
static int32_t ort_moved(const struct graph_tensor *t)
{
    return t->counts_from_0 ? 128 : 0;
}

static float zero_point(const struct graph_tensor *t)
{
    return (float)(t->zp + ort_moved(t));
}

// Saturates, rounds to even and stores; NaN becomes the lowest value.
static inline int8_t ort_rounded(float v, int32_t move)
{
    float low = (float)(-128 + move), high = (float)(127 + move);
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (int8_t)((int32_t)rintf(v) - move);
}

// ---- Add, Mul ----

// `apart`: signedness differs, for which ONNX Runtime has no fused kernel.
struct ort_int8_binary ort_int8_binary(enum graph_op op, const struct graph_tensor *a,
                                       const struct graph_tensor *b, const struct graph_tensor *y)
{
    bool together = a->counts_from_0 == b->counts_from_0 && a->counts_from_0 == y->counts_from_0;
    return (struct ort_int8_binary){.op = op, .apart = !together, .a = a, .b = b, .y = y};
}

struct sum {
    float inner, outer, fixed;
    int32_t move;
};

KERNEL(void, ort_add, (struct sum s, const int8_t *inner, const int8_t *outer, int8_t *y, size_t n),
       (s, inner, outer, y, n))
{
    for (size_t i = 0; i < n; i++) {
        float sum = fmaf((float)(inner[i] + s.move), s.inner, s.fixed);
        y[i] = ort_rounded(fmaf((float)(outer[i] + s.move), s.outer, sum), s.move);
    }
}

struct product {
    int32_t zp[2], move;
    float ratio, zero;
};

KERNEL(void, ort_multiply,
       (struct product p, const int8_t *a, const int8_t *b, int8_t *y, size_t n), (p, a, b, y, n))
{
    for (size_t i = 0; i < n; i++) {
        int32_t v = (a[i] - p.zp[0]) * (b[i] - p.zp[1]);
        y[i] = ort_rounded((float)v * p.ratio + p.zero, p.move);
    }
}

// With AVX2, where compilers take many instructions for the way from and to bytes: 32 at once.
// Returns how many of n it has done.
#ifdef KERNEL_AVX2
AVX2_INLINE __m256 ort_load_eight(const int8_t *x, int32_t more)
{
    __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)x));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(v, _mm256_set1_epi32(more)));
}

// As ort_rounded(): of a comparison with NaN the second operand is left.
AVX2_INLINE __m256i ort_round_eight(__m256 v, int32_t move)
{
    v = _mm256_max_ps(v, _mm256_set1_ps((float)(-128 + move)));
    v = _mm256_min_ps(v, _mm256_set1_ps((float)(127 + move)));
    return _mm256_sub_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(move));
}

// As ort_add().
KERNEL_AVX2 static size_t ort_add_some(struct sum s, const int8_t *inner, const int8_t *outer,
                                       int8_t *y, size_t n)
{
    const __m256 by[2] = {_mm256_set1_ps(s.inner), _mm256_set1_ps(s.outer)},
                 fixed = _mm256_set1_ps(s.fixed);
    size_t i = 0;
    for (; i + 4 * AVX2_LANES <= n; i += 4 * AVX2_LANES) {
        __m256i v[4];
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            size_t at = i + k * AVX2_LANES;
            __m256 sum = _mm256_fmadd_ps(ort_load_eight(inner + at, s.move), by[0], fixed);
            sum = _mm256_fmadd_ps(ort_load_eight(outer + at, s.move), by[1], sum);
            v[k] = ort_round_eight(sum, s.move);
        }
        avx2_store_packed(v, y + i);
    }
    return i;
}

// As ort_multiply().
KERNEL_AVX2 static size_t ort_multiply_some(struct product p, const int8_t *a, const int8_t *b,
                                            int8_t *y, size_t n)
{
    const __m256 ratio = _mm256_set1_ps(p.ratio), zero = _mm256_set1_ps(p.zero);
    size_t i = 0;
    for (; i + 4 * AVX2_LANES <= n; i += 4 * AVX2_LANES) {
        __m256i v[4];
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            size_t at = i + k * AVX2_LANES; // products below 2^16 are exact as floats
            __m256 x =
                _mm256_mul_ps(ort_load_eight(a + at, -p.zp[0]), ort_load_eight(b + at, -p.zp[1]));
            v[k] = ort_round_eight(_mm256_add_ps(_mm256_mul_ps(x, ratio), zero), p.move);
        }
        avx2_store_packed(v, y + i);
    }
    return i;
}
#else
static size_t ort_add_some(struct sum s, const int8_t *inner, const int8_t *outer, int8_t *y,
                           size_t n)
{
    (void)s, (void)inner, (void)outer, (void)y, (void)n;
    return 0;
}

static size_t ort_multiply_some(struct product p, const int8_t *a, const int8_t *b, int8_t *y,
                                size_t n)
{
    (void)p, (void)a, (void)b, (void)y, (void)n;
    return 0;
}
#endif

// The rest of less than 32 by the loops above, which give the same.
static void ort_add_all(struct sum s, const int8_t *inner, const int8_t *outer, int8_t *y, size_t n)
{
    size_t done = kernel_has_avx2() ? ort_add_some(s, inner, outer, y, n) : 0;
    ort_add(s, inner + done, outer + done, y + done, n - done);
}

static void ort_multiply_all(struct product p, const int8_t *a, const int8_t *b, int8_t *y,
                             size_t n)
{
    size_t done = kernel_has_avx2() ? ort_multiply_some(p, a, b, y, n) : 0;
    ort_multiply(p, a + done, b + done, y + done, n - done);
}

// `inner` is added first.
static struct sum make_sum(const struct ort_int8_binary *s)
{
    float a = s->a->scale / s->y->scale, b = s->b->scale / s->y->scale;
    float zeros = fmaf(a, zero_point(s->a), b * zero_point(s->b));
    return (struct sum){s->a_first ? a : b, s->a_first ? b : a, zero_point(s->y) - zeros,
                        ort_moved(s->y)};
}

static struct product make_product(const struct ort_int8_binary *s)
{
    return (struct product){.zp = {s->a->zp, s->b->zp},
                            .move = ort_moved(s->y),
                            .ratio = s->a->scale * s->b->scale / s->y->scale,
                            .zero = zero_point(s->y)};
}

struct real {
    float scale, zp;
};

static struct real make_real(const struct graph_tensor *t)
{
    return (struct real){t->scale, (float)t->zp};
}

static inline float real_of(struct real r, int8_t v)
{
    return ((float)v - r.zp) * r.scale;
}

static inline int8_t ort_quantized(struct real r, float v)
{
    return ort_rounded(rintf(v / r.scale) + r.zp, 0);
}

KERNEL(void, add_apart,
       (struct real a, struct real b, struct real to, const int8_t *x, const int8_t *w, int8_t *y,
        size_t n),
       (a, b, to, x, w, y, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] = ort_quantized(to, real_of(a, x[i]) + real_of(b, w[i]));
}

KERNEL(void, multiply_apart,
       (struct real a, struct real b, struct real to, const int8_t *x, const int8_t *w, int8_t *y,
        size_t n),
       (a, b, to, x, w, y, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] = ort_quantized(to, real_of(a, x[i]) * real_of(b, w[i]));
}

void ort_int8_binary_run(const struct ort_int8_binary *s, const int8_t *a, const int8_t *b,
                         int8_t *y, size_t n)
{
    if (s->apart)
        (s->op == GRAPH_ADD ? add_apart : multiply_apart)(make_real(s->a), make_real(s->b),
                                                          make_real(s->y), a, b, y, n);
    else if (s->op == GRAPH_ADD)
        ort_add_all(make_sum(s), s->a_first ? a : b, s->a_first ? b : a, y, n);
    else
        ort_multiply_all(make_product(s), a, b, y, n);
}

// ---- averages ----

KERNEL(void, scale_sums,
       (const int32_t *sums, int32_t bias, float scale, int32_t zp, int8_t *y, size_t n),
       (sums, bias, scale, zp, y, n))
{
    float low = (float)(-128 - zp), high = (float)(127 - zp);
    for (size_t i = 0; i < n; i++) {
        float v = (float)(sums[i] + bias) * scale;
        v = v > low ? v : low;
        v = v < high ? v : high;
        y[i] = (int8_t)((int32_t)rintf(v) + zp);
    }
}

void ort_int8_mean(const struct graph_tensor *from, const int32_t *sums, uint32_t count,
                   const struct graph_tensor *form, int8_t *y, size_t n)
{
    float scale = from->scale / (form->scale * (float)count);
    scale_sums(sums, -from->zp * (int32_t)count, scale, form->zp, y, n);
}

KERNEL(void, divide_reals,
       (const float *real, float divisor, float scale, float zp, int32_t move, int8_t *y, size_t n),
       (real, divisor, scale, zp, move, y, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] = ort_rounded(real[i] / divisor / scale + zp, move);
}

KERNEL(void, multiply_reals,
       (const float *real, float divisor, float scale, float zp, int32_t move, int8_t *y, size_t n),
       (real, divisor, scale, zp, move, y, n))
{
    float of_divisor = 1 / divisor, of_scale = 1 / scale;
    for (size_t i = 0; i < n; i++) {
        float mean = quotient(real[i], divisor, of_divisor);
        y[i] = ort_rounded(quotient(mean, scale, of_scale) + zp, move);
    }
}

void ort_int8_quotient(const float *real, float divisor, const struct graph_tensor *form, int8_t *y,
                       size_t n)
{
    bool fast = quotient_is_fast(divisor) && quotient_is_fast(form->scale);
    (fast ? multiply_reals : divide_reals)(real, divisor, form->scale, zero_point(form),
                                           ort_moved(form), y, n);
}

// ---- means of windows from sums of integers ----

#define ROUNDER     12582912.0f // 1.5 * 2^23: floats near it have units of 1
#define MOST_ERROR  0.01
#define MOST_TAPS   256 // of which 16 bits hold the sum
#define SELDOM_OPEN 200 // of so many sums one is open at most

// What both ways to a mean are apart at most, in units of the result and within its bounds. Numbers
// are of 255 at most; each addition, product and quotient rounds by 2^-24.
static double means_error(double ratio, uint32_t n)
{
    return (n + 6) * 257 * ratio * 0x1p-24 + 0x1p-14;
}

struct ort_int8_means ort_int8_means(const struct graph_tensor *from, uint32_t inside,
                                     uint32_t divisor, const struct graph_tensor *form)
{
    const double ratio = (double)from->scale / (double)form->scale, factor = ratio / divisor;
    return (struct ort_int8_means){.factor = (float)factor,
                                   .zeros = (float)(-factor * from->zp * inside),
                                   .near = (float)(0.5 - means_error(ratio, inside)),
                                   .zp = form->zp};
}

bool ort_int8_means_pay(const struct graph_tensor *from, uint64_t taps,
                        const struct graph_tensor *form, bool *ret_sure)
{
    const double ratio = (double)from->scale / (double)form->scale;
    const double error = taps <= MOST_TAPS ? means_error(ratio, (uint32_t)taps) : 1;
    int32_t open = 0, most = 255 * (int32_t)taps;
    if (!kernel_has_avx2() || !(error < MOST_ERROR))
        return false;
    for (int32_t sum = 0; sum <= most; sum++) {
        double v = sum * ratio / (double)taps;
        open += fabs(v - rint(v)) > 0.5 - 2 * error;
    }
    *ret_sure = open == 0;
    return open <= most / SELDOM_OPEN;
}

bool ort_int8_is_open(const struct ort_int8_means *m, int16_t sum)
{
    float v = fmaf(sum, m->factor, m->zeros);
    return fabsf(v - rintf(v)) > m->near;
}

#ifdef KERNEL_AVX2
#define MEANS (4 * AVX2_LANES) // at once

AVX2_INLINE __m256i means_round(const struct ort_int8_means *m, const bool sure,
                                const int16_t *sums, int8_t *y, __m256i open)
{
    const __m256 factor = _mm256_set1_ps(m->factor), zeros = _mm256_set1_ps(m->zeros);
    const __m256 rounder = _mm256_set1_ps(ROUNDER), near = _mm256_set1_ps(m->near);
    const __m256i zp = _mm256_set1_epi32(m->zp - (int32_t)float_bits(ROUNDER));
    __m256i v[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        __m128i some = _mm_loadu_si128((const void *)(sums + k * AVX2_LANES));
        __m256 mean = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(some));
        mean = _mm256_fmadd_ps(mean, factor, zeros);
        __m256 rounded = _mm256_add_ps(mean, rounder);
        v[k] = _mm256_add_epi32(_mm256_castps_si256(rounded), zp);
        if (sure)
            continue;
        __m256 rest = _mm256_sub_ps(mean, _mm256_sub_ps(rounded, rounder));
        rest = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), rest);
        open = _mm256_or_si256(open, _mm256_castps_si256(_mm256_cmp_ps(rest, near, _CMP_GT_OQ)));
    }
    avx2_store_packed(v, y);
    return open;
}

AVX2_INLINE bool means_round_all(const struct ort_int8_means *m, const bool sure,
                                 const int16_t *sums, int8_t *y, size_t n)
{
    const struct ort_int8_means means = *m; // a copy, which no store changes
    __m256i open = _mm256_setzero_si256();
    int16_t last[MEANS] = {0};
    int8_t rest[MEANS];
    size_t i = 0;
    for (; i + MEANS <= n; i += MEANS)
        open = means_round(&means, sure, sums + i, y + i, open);
    if (i < n) {
        for (size_t k = 0; k < MEANS; k++) // copies of the last one, which are as open as it is
            last[k] = sums[i + k < n ? i + k : n - 1];
        open = means_round(&means, sure, last, rest, open);
        memcpy(y + i, rest, n - i);
    }
    return !_mm256_testz_si256(open, open);
}

KERNEL_AVX2 bool ort_int8_means_run(const struct ort_int8_means *m, bool sure, const int16_t *sums,
                                    int8_t *y, size_t n)
{
    return sure ? means_round_all(m, true, sums, y, n) : means_round_all(m, false, sums, y, n);
}
#else
bool ort_int8_means_run(const struct ort_int8_means *m, bool sure, const int16_t *sums, int8_t *y,
                        size_t n)
{
    (void)m, (void)sure, (void)sums, (void)y, (void)n;
    abort(); // ort_int8_means_pay() is never true
}
#endif
