// Activations on contiguous floats.
//
// Relu, clip and the like are exact. Exp, sigmoid, tanh and what is made of them use the
// polynomials below instead of libm, since those become vector instructions; exp is off by one unit
// in the last place at most, tanh by two. Erf, log, softplus and other rare ones call libm for each
// element. On 8-bit tensors none of this runs for each element: elements_table() makes a table of
// 256 once. Tested by test_sim_cases_activations, test_sim_fp16 and test_onnx_nodes.
#include <math.h>

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"

// 2^n for n in -126 … 127.
static inline float power_of_two(int32_t n)
{
    return bits_float((uint32_t)(n + 127) << 23);
}

// expf() in steps that are vector instructions, off by one unit in the last place at most:
// x = n ln 2 + r, and Taylor's series for e^r, |r| <= ln 2 / 2. ln 2 is subtracted in two parts,
// the first of which is exact. NaN stays NaN.
static inline float post_exponential(float x)
{
    const float rounds = 0x1.8p23f; // what it is added to loses its fraction
    const float ln2 = 0x1.62ep-1f, ln2_rest = 0x1.0bfbe8e7p-15f;
    x = x < -104 ? -104 : x;
    x = x > 89 ? 89 : x;
    float shifted = x * 1.44269504f + rounds, n = shifted - rounds;
    float r = (x - n * ln2) - n * ln2_rest;
    float series = 1 / 5040.0f;
    series = series * r + 1 / 720.0f;
    series = series * r + 1 / 120.0f;
    series = series * r + 1 / 24.0f;
    series = series * r + 1 / 6.0f;
    series = series * r + 1 / 2.0f;
    int32_t power = (int32_t)(float_bits(shifted) - float_bits(rounds));
    int32_t half = power >> 1; // 2^power itself may be no float
    return (r * r * series + r + 1) * power_of_two(half) * power_of_two(power - half);
}

static inline float post_sigmoid(float x)
{
    return 1 / (1 + post_exponential(-x));
}

// tanhf(), off by two units in the last place at most: a polynomial (Cephes has its coefficients)
// where the exponential would lose digits.
static inline float hyperbolic_tangent(float x)
{
    float size = fabsf(x), square = x * x;
    float series = -5.70498872745e-3f;
    series = series * square + 2.06390887954e-2f;
    series = series * square - 5.37397155531e-2f;
    series = series * square + 1.33314422036e-1f;
    series = series * square - 3.33332819422e-1f;
    float small = series * square * size + size, large = 1 - 2 / (post_exponential(2 * size) + 1);
    return copysignf(size < 0.625f ? small : large, x);
}

static inline float hard_sigmoid(float x, float alpha, float beta)
{
    float y = alpha * x + beta;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

static inline float post_softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

// One loop for each, so that the compiler sees what is done.
#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++) {                                                               \
        float v = x[i];                                                                            \
        x[i] = (expression);                                                                       \
    }                                                                                              \
    break

// Those that have vector instructions.
KERNEL(void, post_simple, (const struct graph_post *post, float *x, size_t n), (post, x, n))
{
    float a = post->alpha, b = post->beta;
    switch (post->kind) {
    case POST_RELU:
        EACH(v < 0 ? 0 : v);
    case POST_CLIP:
        EACH(v < a ? a : v > b ? b : v);
    case POST_LEAKY_RELU:
        EACH(v < 0 ? v * a : v);
    case POST_HARD_SIGMOID:
        EACH(hard_sigmoid(v, a, b));
    case POST_HARD_SWISH:
        EACH(v * hard_sigmoid(v, a, b));
    case POST_SQRT:
        EACH(sqrtf(v));
    case POST_ABS:
        EACH(fabsf(v));
    case POST_NEG:
        EACH(-v);
    case POST_FLOOR:
        EACH(floorf(v));
    case POST_RECIPROCAL:
        EACH(1 / v);
    case POST_SIGMOID:
        EACH(post_sigmoid(v));
    case POST_SWISH:
        EACH(v * post_sigmoid(v));
    case POST_EXP:
        EACH(post_exponential(v));
    case POST_TANH:
        EACH(hyperbolic_tangent(v));
    case POST_GELU_TANH:
        EACH(0.5f * v * (1 + hyperbolic_tangent(0.79788456f * (v + 0.044715f * v * v * v))));
    default: // POST_SCALE
        EACH(a * v + b);
    }
}

bool clamp_bounds(const struct graph_post *posts, uint32_t n_posts, struct clamp_bounds *ret)
{
    *ret = (struct clamp_bounds){-INFINITY, INFINITY};
    if (n_posts == 1 && posts->kind == POST_RELU)
        ret->low = 0;
    else if (n_posts == 1 && posts->kind == POST_CLIP && posts->alpha <= posts->beta)
        *ret = (struct clamp_bounds){posts->alpha, posts->beta};
    else
        return n_posts == 0;
    return true;
}

void elements_post(const struct graph_post *post, float *x, size_t n)
{
    switch (post->kind) {
    case POST_LOG:
        EACH(logf(v));
    case POST_ERF:
        EACH(erff(v));
    case POST_GELU:
        EACH(0.5f * v * (1 + erff(v * 0.70710678f)));
    case POST_ELU:
        EACH(v < 0 ? post->alpha * expm1f(v) : v);
    case POST_SOFTPLUS:
        EACH(post_softplus(v));
    case POST_MISH:
        EACH(v * tanhf(post_softplus(v)));
    case POST_SWOOSH:
        EACH(post_softplus(v - post->alpha) - 0.08f * v - post->beta);
    default:
        post_simple(post, x, n);
    }
}

void elements_table(const struct element_form *from, const struct graph_post *posts,
                    uint32_t n_posts, const struct element_form *to, int8_t table[256])
{
    float v[256];
    for (int i = 0; i < 256; i++)
        table[i] = (int8_t)i;
    elements_load(from, table, 256, v);
    for (uint32_t i = 0; i < n_posts; i++)
        elements_post(&posts[i], v, 256);
    elements_store(to, table, 256, v);
}
