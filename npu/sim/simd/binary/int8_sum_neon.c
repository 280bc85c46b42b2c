// Sums and products of arrays of int8 with NEON, 16 at a time. int8_sum.c has what is computed;
// all of these are integers that floats hold.
//
//   rounded operand    fma(x + offset, factor, INTEGER)       the constant stays in it
//   exact one          fma(x, factor, offset * factor)        nothing to round
//   a product of both  of int16, where nothing is scaled before
//   a sum              one of both has -INTEGER, which takes the other's off: rounded to nearest,
//                      ties to even, on that side of 0 as well
//
// Where no result lies beyond 16 bits, the lower halves of its bits are narrowed, which saturates;
// else bits are clamped as integers before. Compiled without contracted products.
//
// Tests: test_sim_int8 of the preset arm64, of all pairs.
#include "npu/sim/simd/binary/int8_sum.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <stdlib.h>

#define NEON_INLINE static inline __attribute__((always_inline))
#define VECTORS     4

// What a loop over elements has as constants.
struct sum_form {
    bool product, rounded[2], narrow; // narrow: no result lies beyond 16 bits
    bool integers;                    // a product of what has no factors
};

struct sum_operand {
    int16x8_t offset;
    float32x4_t factor, more;
};

// A sum's second operand has -INTEGER, or the exact one of two.
NEON_INLINE struct sum_operand neon_operand(const struct graph_sum *sum, const int k,
                                            const struct sum_form form)
{
    const bool rounded = form.rounded[k], other = !form.product && form.rounded[!k];
    const float factor = (float)int8_factor(sum->operand[k]);
    const float integer = rounded && other && k ? -INT8_INTEGER : INT8_INTEGER;
    const float exact = (float)sum->offset[k] * factor - (other ? INT8_INTEGER : 0);
    return (struct sum_operand){
        .offset = vdupq_n_s16(rounded || form.integers ? (int16_t)sum->offset[k] : 0),
        .factor = vdupq_n_f32(factor),
        .more = vdupq_n_f32(rounded ? integer : exact)};
}

NEON_INLINE void neon_scaled(const struct sum_operand *o, const int8_t *x, float32x4_t *to)
{
    const int8x16_t bytes = vld1q_s8(x);
    const int16x8_t low = vaddw_s8(o->offset, vget_low_s8(bytes));
    const int16x8_t high = vaddw_high_s8(o->offset, bytes);
    const int32x4_t wide[VECTORS] = {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low),
                                     vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        to[v] = vfmaq_f32(o->more, vcvtq_f32_s32(wide[v]), o->factor);
}

NEON_INLINE void neon_products(const struct sum_operand o[2], const int8_t *a, const int8_t *b,
                               float32x4_t *to)
{
    const int8x16_t x = vld1q_s8(a), y = vld1q_s8(b);
    const int16x8_t v[2] = {vaddw_s8(o[0].offset, vget_low_s8(x)), vaddw_high_s8(o[0].offset, x)};
    const int16x8_t w[2] = {vaddw_s8(o[1].offset, vget_low_s8(y)), vaddw_high_s8(o[1].offset, y)};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        to[2 * i] = vcvtq_f32_s32(vmull_s16(vget_low_s16(v[i]), vget_low_s16(w[i])));
        to[2 * i + 1] = vcvtq_f32_s32(vmull_high_s16(v[i], w[i]));
    }
}

NEON_INLINE float32x4_t neon_join(float32x4_t v, float32x4_t w, const struct sum_form form)
{
    const float32x4_t integer = vdupq_n_f32(INT8_INTEGER);
    if (!form.product)
        return vaddq_f32(v, w);
    return vmulq_f32(form.rounded[0] ? vsubq_f32(v, integer) : v,
                     form.rounded[1] ? vsubq_f32(w, integer) : w);
}

NEON_INLINE void neon_sum_all(const struct graph_sum *sum, int8_t low, const int8_t *a,
                              const int8_t *b, size_t n, int8_t *y, const struct sum_form form)
{
    const struct sum_operand o[2] = {neon_operand(sum, 0, form), neon_operand(sum, 1, form)};
    const float32x4_t out = vdupq_n_f32((float)int8_factor(sum->out));
    const float32x4_t to = vdupq_n_f32(INT8_INTEGER + (float)sum->zp);
    const int32x4_t min = vreinterpretq_s32_f32(vdupq_n_f32(INT8_INTEGER + (float)low));
    const int32x4_t max = vreinterpretq_s32_f32(vdupq_n_f32(INT8_INTEGER + INT8_MAX));
    for (size_t i = 0; i < n; i += INT8_SUM_NEON) {
        float32x4_t v[VECTORS], w[VECTORS];
        int16x8_t halves[VECTORS];
        if (form.integers) {
            neon_products(o, a + i, b + i, v);
        } else {
            neon_scaled(&o[0], a + i, v);
            neon_scaled(&o[1], b + i, w);
        }
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++) {
            const float32x4_t x = form.integers ? v[k] : neon_join(v[k], w[k], form);
            int32x4_t bits = vreinterpretq_s32_f32(vfmaq_f32(to, x, out));
            if (!form.narrow)
                bits = vminq_s32(vmaxq_s32(bits, min), max);
            halves[k] = vreinterpretq_s16_s32(bits);
        }
        const int16x8_t lower = vuzp1q_s16(halves[0], halves[1]);
        const int8x16_t bytes =
            vqmovn_high_s16(vqmovn_s16(lower), vuzp1q_s16(halves[2], halves[3]));
        vst1q_s8(y + i, vmaxq_s8(bytes, vdupq_n_s8(low)));
    }
}

static bool neon_is_narrow(const struct graph_sum *sum)
{
    double reach[2];
    for (int k = 0; k < 2; k++)
        reach[k] = (fabs((double)sum->offset[k]) + 128) * fabs(int8_factor(sum->operand[k])) + 1;
    const double most = sum->product ? reach[0] * reach[1] : reach[0] + reach[1];
    return most * fabs(int8_factor(sum->out)) + abs(sum->zp) + 2 < INT16_MAX;
}

static bool neon_has_no_factor(struct graph_scaling s)
{
    return s.factor == 1 && s.shift == 0;
}

// Each form has a loop of its own, which asks nothing.
#define FORM(product, first, second, integers)                                                     \
    if (narrow)                                                                                    \
        neon_sum_all(sum, low, a, b, n, y,                                                         \
                     (struct sum_form){product, {first, second}, true, integers});                 \
    else                                                                                           \
        neon_sum_all(sum, low, a, b, n, y,                                                         \
                     (struct sum_form){product, {first, second}, false, integers})
#define FORMS(product)                                                                             \
    if (first && second) {                                                                         \
        FORM(product, true, true, false);                                                          \
    } else if (first) {                                                                            \
        FORM(product, true, false, false);                                                         \
    } else if (second) {                                                                           \
        FORM(product, false, true, false);                                                         \
    } else {                                                                                       \
        FORM(product, false, false, false);                                                        \
    }

void int8_sum_neon(const struct graph_sum *sum, int8_t low, const int8_t *a, const int8_t *b,
                   size_t n, int8_t *y)
{
    const bool narrow = neon_is_narrow(sum), first = sum->operand[0].shift,
               second = sum->operand[1].shift;
    if (sum->product && neon_has_no_factor(sum->operand[0]) &&
        neon_has_no_factor(sum->operand[1])) {
        FORM(true, false, false, true);
    } else if (sum->product) {
        FORMS(true)
    } else {
        FORMS(false)
    }
}
#endif
