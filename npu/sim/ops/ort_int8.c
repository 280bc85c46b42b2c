// The arithmetic of ort_int8.h. With ra = scale_a / scale_y and rb = scale_b / scale_y:
//
//   Add   y = rint(fma(b, rb, fma(a, ra, zp_y - ra zp_a - rb zp_b)))     all signed or unsigned
//   Mul   y = rint((a - zp_a) * (b - zp_b) * scale_a scale_b / scale_y + zp_y)   likewise
//   else  dequantizes both, adds or multiplies, quantizes the result     "apart"
//   mean  y = rint((Σx - n zp_x) * (scale_x / (scale_y n))) + zp_y
//
// Compiled without contraction (-ffp-contract=off): where ONNX Runtime fuses a product and a sum
// fmaf() stands here, and nowhere else. Rounding is to nearest even, saturating, on numbers as ONNX
// Runtime stores them. Loops are vector instructions by KERNEL. Tested by test_onnx_against.
#include "npu/sim/ops/ort_int8.h"

#include <math.h>

#include "npu/sim/ops/quotient.h"
#include "npu/sim/simd/elements.h"

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

// `inner` is added first.
static struct sum make_sum(const struct ort_int8_binary *s)
{
    float a = s->a->scale / s->y->scale, b = s->b->scale / s->y->scale;
    float zeros = fmaf(a, zero_point(s->a), b * zero_point(s->b));
    return (struct sum){s->a_first ? a : b, s->a_first ? b : a, zero_point(s->y) - zeros,
                        ort_moved(s->y)};
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
        ort_add(make_sum(s), s->a_first ? a : b, s->a_first ? b : a, y, n);
    else
        ort_multiply(make_product(s), a, b, y, n);
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
