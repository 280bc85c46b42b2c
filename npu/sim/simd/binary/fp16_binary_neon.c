// Arithmetic on arrays of fp16 with NEON: fp16_binary.c has what is computed, and how it is
// rounded. Eight elements are two vectors of floats, or one of fp16 where the CPU computes with
// these (armv8.2): rounded once, they give what floats do that are rounded again, and bounds that
// are rounded the same as results that are behind them. But for products that become -0: of these
// bounds must see that they are below 0.
//
// Bounds as in elements_post(): NaN becomes the lower one, where there is one, and -0 stays.
//
// Tests: test_sim_fp16 of the preset arm64.
#include "npu/sim/simd/binary/fp16_binary.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <math.h>
#include <sys/auxv.h>

#include "npu/sim/simd/binary/binary.h"
#include "npu/sim/simd/binary/fp16_each.h"

#define NEON_INLINE static inline __attribute__((always_inline))
#define HALF        __attribute__((target("arch=armv8.2-a+fp16")))
#define HALF_INLINE HALF NEON_INLINE

NEON_INLINE float32x4_t fp16_low(const uint16_t *x)
{
    return vcvt_f32_f16(vget_low_f16(vreinterpretq_f16_u16(vld1q_u16(x))));
}

NEON_INLINE float32x4_t fp16_high(const uint16_t *x)
{
    return vcvt_high_f32_f16(vreinterpretq_f16_u16(vld1q_u16(x)));
}

NEON_INLINE float32x4_t fp16_clamp(const struct clamp_bounds bounds, float32x4_t v)
{
    const float32x4_t low = vdupq_n_f32(bounds.low), high = vdupq_n_f32(bounds.high);
    if (bounds.low > -INFINITY)
        v = vbslq_f32(vcgeq_f32(v, low), v, low);
    if (bounds.high < INFINITY)
        v = vbslq_f32(vcgtq_f32(v, high), high, v);
    return v;
}

NEON_INLINE void fp16_store_both(const struct clamp_bounds bounds, float32x4_t low,
                                 float32x4_t high, uint16_t *y)
{
    const float16x4_t first = vcvt_f16_f32(fp16_clamp(bounds, low));
    vst1q_u16(y, vreinterpretq_u16_f16(vcvt_high_f16_f32(first, fp16_clamp(bounds, high))));
}

NEON_INLINE float32x4_t fp16_operate(const enum graph_op op, float32x4_t v, float32x4_t w)
{
    return op == GRAPH_ADD ? vaddq_f32(v, w) : op == GRAPH_SUB ? vsubq_f32(v, w) : vmulq_f32(v, w);
}

NEON_INLINE void fp16_binary_8(const enum graph_op op, const uint16_t *a, const uint16_t *b,
                               const struct clamp_bounds bounds, uint16_t *y)
{
    const float32x4_t low = fp16_operate(op, fp16_low(a), fp16_low(b));
    fp16_store_both(bounds, low, fp16_operate(op, fp16_high(a), fp16_high(b)), y);
}

HALF_INLINE float16x8_t fp16_load_half(const uint16_t *x)
{
    return vreinterpretq_f16_u16(vld1q_u16(x));
}

// As fp16_clamp().
HALF_INLINE float16x8_t fp16_clamp_half(const struct clamp_bounds bounds, float16x8_t v)
{
    const float16x8_t low = vdupq_n_f16((float16_t)bounds.low);
    const float16x8_t high = vdupq_n_f16((float16_t)bounds.high);
    if (bounds.low > -INFINITY)
        v = vbslq_f16(vcgeq_f16(v, low), v, low);
    if (bounds.high < INFINITY)
        v = vbslq_f16(vcgtq_f16(v, high), high, v);
    return v;
}

HALF_INLINE void fp16_binary_half_8(const enum graph_op op, const uint16_t *a, const uint16_t *b,
                                    const struct clamp_bounds bounds, uint16_t *y)
{
    const float16x8_t v = fp16_load_half(a), w = fp16_load_half(b);
    const float16x8_t both = op == GRAPH_ADD   ? vaddq_f16(v, w)
                             : op == GRAPH_SUB ? vsubq_f16(v, w)
                                               : vmulq_f16(v, w);
    vst1q_u16(y, vreinterpretq_u16_f16(fp16_clamp_half(bounds, both)));
}

// Bounds that are none are constants, too: so the loop asks for nothing.
#define FP16_BINARY(some)                                                                          \
    const struct clamp_bounds none = {-INFINITY, INFINITY};                                        \
    if (bounds.low > -INFINITY || bounds.high < INFINITY)                                          \
        WITH_BINARY(op, fp16_each, some, a, b, n, bounds, y);                                      \
    else                                                                                           \
        WITH_BINARY(op, fp16_each, some, a, b, n, none, y)

HALF static void fp16_binary_half(enum graph_op op, const uint16_t *a, const uint16_t *b, size_t n,
                                  struct clamp_bounds bounds, uint16_t *y)
{
    FP16_BINARY(fp16_binary_half_8);
}

static void fp16_binary_floats(enum graph_op op, const uint16_t *a, const uint16_t *b, size_t n,
                               struct clamp_bounds bounds, uint16_t *y)
{
    FP16_BINARY(fp16_binary_8);
}

bool fp16_binary_is_native(enum graph_op op, struct clamp_bounds bounds)
{
    const bool bounded = bounds.low > -INFINITY || bounds.high < INFINITY;
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) && (op != GRAPH_MUL || !bounded);
}

void fp16_binary(enum graph_op op, const void *a, const void *b, size_t n,
                 struct clamp_bounds bounds, void *y)
{
    const bool native = fp16_binary_is_native(op, bounds);
    (native ? fp16_binary_half : fp16_binary_floats)(op, a, b, n, bounds, y);
}

NEON_INLINE void fp16_floats_8(const enum graph_op op, const bool swapped, const uint16_t *x,
                               const float *b, const struct clamp_bounds bounds, uint16_t *y)
{
    const float32x4_t v[2] = {fp16_low(x), fp16_high(x)}, w[2] = {vld1q_f32(b), vld1q_f32(b + 4)};
    const float32x4_t low = swapped ? fp16_operate(op, w[0], v[0]) : fp16_operate(op, v[0], w[0]);
    const float32x4_t high = swapped ? fp16_operate(op, w[1], v[1]) : fp16_operate(op, v[1], w[1]);
    fp16_store_both(bounds, low, high, y);
}

void fp16_with_floats(enum graph_op op, const void *x, const float *b, bool swapped, size_t n,
                      struct clamp_bounds bounds, void *y)
{
    if (swapped)
        WITH_BINARY(op, fp16_floats_each, fp16_floats_8, true, x, b, n, bounds, y);
    else
        WITH_BINARY(op, fp16_floats_each, fp16_floats_8, false, x, b, n, bounds, y);
}

NEON_INLINE void fp16_scale_8(const uint16_t *x, const float *factor, const float *term,
                              const struct clamp_bounds bounds, uint16_t *y)
{
    const float32x4_t low = vfmaq_f32(vld1q_f32(term), fp16_low(x), vld1q_f32(factor));
    const float32x4_t high = vfmaq_f32(vld1q_f32(term + 4), fp16_high(x), vld1q_f32(factor + 4));
    fp16_store_both(bounds, low, high, y);
}

void fp16_scale(const void *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, void *y)
{
    fp16_scale_each(fp16_scale_8, x, factor, term, n, bounds, y);
}
#endif
