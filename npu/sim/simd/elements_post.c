// Activations on contiguous floats.
//
// Relu, clip and the like are exact. Exp, sigmoid, tanh and what is made of them use the
// polynomials below instead of libm, since those become vector instructions; exp and log are off by
// one unit in the last place at most, tanh and elu by two, erf and softplus by four. On 8-bit
// tensors none of this runs for each element: elements_table() makes a table of 256 once, by libm
// where that is better. Tested by test_sim_cases_activations, test_sim_fp16, test_sim_int8 and
// test_onnx_nodes.
#include <math.h>

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/functions/erf.h"
#include "npu/sim/simd/sigmoid.h"

// 2^n for n in -126 … 127.
static inline float power_of_two(int32_t n)
{
    return bits_float((uint32_t)(n + 127) << 23);
}

// condition ? a : b, by bits: compilers for AVX2 make branches of choices that belong together, and
// no vectors. NaN stays NaN where conditions are false of it.
static inline float post_choose(bool condition, float a, float b)
{
    uint32_t mask = -(uint32_t)condition;
    return bits_float((float_bits(a) & mask) | (float_bits(b) & ~mask));
}

// A lower bound takes the place of NaN, as in oneDNN's kernels; without one (-INFINITY) NaN stays,
// for which there is a loop of its own: a choice between the two would be a jump for each element.
static inline float post_clip(float x, float low, float high)
{
    x = post_choose(x >= low, x, low);
    return post_choose(x > high, high, x);
}

static inline float post_within(float x, float low, float high)
{
    x = post_choose(x < low, low, x);
    return post_choose(x > high, high, x);
}

// Taylor's series for (e^r - 1 - r) / r^2.
static inline float post_series(float r)
{
    float series = 1 / 5040.0f;
    series = series * r + 1 / 720.0f;
    series = series * r + 1 / 120.0f;
    series = series * r + 1 / 24.0f;
    series = series * r + 1 / 6.0f;
    series = series * r + 1 / 2.0f;
    return series;
}

// expf() in steps that are vector instructions, off by one unit in the last place at most:
// x = n ln 2 + r, and Taylor's series for e^r, |r| <= ln 2 / 2. ln 2 is subtracted in two parts,
// the first of which is exact. NaN stays NaN. So near to 0 that e^x is 1, x becomes 0: its square
// would be a denormal number, with which CPUs are ten times as slow.
static inline float post_exponential(float x)
{
    const float rounds = 0x1.8p23f; // what it is added to loses its fraction
    const float ln2 = 0x1.62ep-1f, ln2_rest = 0x1.0bfbe8e7p-15f;
    x = post_choose(fabsf(x) < 0x1p-40f, 0, post_within(x, -104, 89));
    float shifted = x * 1.44269504f + rounds, n = shifted - rounds;
    float r = (x - n * ln2) - n * ln2_rest;
    int32_t power = (int32_t)(float_bits(shifted) - float_bits(rounds));
    int32_t half = power >> 1; // 2^power itself may be no float
    return (r * r * post_series(r) + r + 1) * power_of_two(half) * power_of_two(power - half);
}

// expm1f() of what is not above 0, as 2^n (e^r - 1) + (2^n - 1), whose second part is exact.
static inline float post_exponential_less_one(float x)
{
    const float rounds = 0x1.8p23f;
    const float ln2 = 0x1.62ep-1f, ln2_rest = 0x1.0bfbe8e7p-15f;
    float near = post_choose(x < -20, -20, x); // -1 in any case
    float shifted = near * 1.44269504f + rounds, n = shifted - rounds;
    float r = (near - n * ln2) - n * ln2_rest;
    float power = power_of_two((int32_t)(float_bits(shifted) - float_bits(rounds)));
    return (r * r * post_series(r) + r) * power + (power - 1);
}

// Far from 0 the exponential is nothing beside 1. It is kept away from denormal numbers, with which
// CPUs are tens of times as slow.
static inline float post_sigmoid(float x)
{
    float least = -80;
    return 1 / (1 + post_exponential(post_choose(-x < least, least, -x)));
}

// logf() in steps that are vector instructions, off by one unit in the last place at most: x = 2^n
// m with m from the root of a half on, and with f = m - 1, log m = f - f^2 / 2 + f^3 p(f). p was
// fitted at Chebyshev's points. ln 2 is added in two parts, of which n times the first is exact.
// Denormal numbers are multiplied by 2^23 first.
static inline float post_logarithm(float x)
{
    const float ln2 = 0x1.62ep-1f, ln2_rest = 0x1.0bfbe8e7p-15f, least = 0x1p-126f;
    const uint32_t half = 0x3f3504f3; // the root of 0.5
    float normal = post_choose(x < least, x * 0x1p23f, x);
    uint32_t bits = float_bits(normal), power = (uint32_t)((int32_t)(bits - half) >> 23);
    float f = bits_float(bits - (power << 23)) - 1, square = f * f;
    float n = (float)(int32_t)power - post_choose(x < least, 23, 0);
    float series = -0.07362868f;
    series = series * f + 0.12620327f;
    series = series * f - 0.13202104f;
    series = series * f + 0.14227115f;
    series = series * f - 0.1662137f;
    series = series * f + 0.19999826f;
    series = series * f - 0.25000852f;
    series = series * f + 0.33333355f;
    float y = n * ln2 + (f + (n * ln2_rest + (f * square * series - 0.5f * square)));
    y = post_choose(x < INFINITY, y, x); // infinity and NaN themselves
    y = post_choose(x == 0, -INFINITY, y);
    return post_choose(x < 0, NAN, y);
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
    return copysignf(post_choose(size < 0.625f, small, large), x);
}

static inline float hard_sigmoid(float x, float alpha, float beta)
{
    return post_within(alpha * x + beta, 0, 1);
}

static inline float post_softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

// The same in steps that are vector instructions: max(x, 0) + log1p(u), u = e^-|x|, and
// log1p(u) = 2 artanh(s), s = u / (2 + u), by artanh's series; s is a third at most.
static inline float post_softplus_series(float x)
{
    float u = post_exponential(-fabsf(x)), s = u / (2 + u), square = s * s;
    float series = 1 / 15.0f;
    series = series * square + 1 / 13.0f;
    series = series * square + 1 / 11.0f;
    series = series * square + 1 / 9.0f;
    series = series * square + 1 / 7.0f;
    series = series * square + 1 / 5.0f;
    series = series * square + 1 / 3.0f;
    return post_choose(x < 0, 0, x) + 2 * (s + s * square * series);
}

// x tanh(softplus(x)), which is x (e^2 + 2 e) / (e^2 + 2 e + 2) with e = e^x; x itself from 20 on.
static inline float post_mish(float x)
{
    float e = post_exponential(post_choose(x > 20, 20, x)), part = e * e + 2 * e;
    return x * (part / (part + 2));
}

// erff(): below 1 a polynomial of x^2, times x; else 1 - e^-x^2 times one of t = 1 / (1 + x / 2).
// Both were fitted at Chebyshev's points, to erf(x) / x and to e^x^2 erfc(x) up to 4.
static inline float post_erf(float v)
{
    float x = fabsf(v), square = x * x;
    float small = -9.6735821e-06f;
    small = small * square + 0.000112682508f;
    small = small * square - 0.000848439639f;
    small = small * square + 0.00522105349f;
    small = small * square - 0.0268654376f;
    small = small * square + 0.112837829f;
    small = small * square - 0.376126379f;
    small = small * square + 1.12837923f;
    float far = post_choose(x > 4, 4, x), t = 1 / (1 + 0.5f * far);
    float large = 0.0129329907f;
    large = large * t + 0.0685301498f;
    large = large * t - 0.384645581f;
    large = large * t + 0.479815841f;
    large = large * t - 0.0537932664f;
    large = large * t + 0.328946203f;
    large = large * t + 0.264107704f;
    large = large * t + 0.284325778f;
    large = large * t - 0.000120402357f;
    float erf = post_choose(x < 1, x * small, 1 - post_exponential(-far * far) * large);
    return copysignf(erf, v);
}

// sinf() and cosf() in steps that are vector instructions, off by two units in the last place at
// most: x = n pi / 2 + r in doubles, with pi / 2 in two parts, of which n, below 2^20, times the
// first is exact; then a polynomial (Cephes has its coefficients) for |r| <= pi / 4. `ahead`: by
// how many quarters of a turn. What is too large for that, or NaN, stays as it is: above 1, as no
// result is.
#define WAVE_LIMIT 1e6f

static inline float post_wave(float x, int32_t ahead)
{
    const double rounds = 0x1.8p52, quarter = 0x1.921fb544p0, rest = 0x1.0b4611a626331p-34;
    double v = (double)post_choose(fabsf(x) < WAVE_LIMIT, x, 0);
    double shifted = v * 0x1.45f306dc9c883p-1 + rounds, n = shifted - rounds;
    float r = (float)((v - n * quarter) - n * rest), square = r * r;
    uint32_t turned = (uint32_t)((int32_t)n + ahead);
    float sine = -1.9515295891e-4f;
    sine = sine * square + 8.3321608736e-3f;
    sine = sine * square - 1.6666654611e-1f;
    sine = r + r * square * sine;
    float cosine = 2.443315711809948e-5f;
    cosine = cosine * square - 1.388731625493765e-3f;
    cosine = cosine * square + 4.166664568298827e-2f;
    cosine = 1 - (0.5f * square - square * square * cosine);
    float y = post_choose(turned & 1, cosine, sine);
    y = bits_float(float_bits(y) ^ (turned & 2) << 30);
    return post_choose(fabsf(x) < WAVE_LIMIT, y, x);
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
        EACH(post_choose(v >= 0, v, 0));
    case POST_CLIP:
        if (!(a > -INFINITY)) {
            EACH(post_choose(v > b, b, v));
        }
        EACH(post_clip(v, a, b));
    case POST_LEAKY_RELU:
        EACH(post_choose(v < 0, v * a, v));
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
    case POST_SIN:
        EACH(post_wave(v, 0));
    case POST_COS:
        EACH(post_wave(v, 1));
    case POST_SOFTSIGN:
        EACH(v / (1 + fabsf(v)));
    case POST_CEIL:
        EACH(ceilf(v));
    case POST_ROUND:
        EACH(rintf(v));
    case POST_SIGN:
        EACH(post_choose(v > 0, 1, post_choose(v < 0, -1, v)));
    case POST_SIGMOID:
        EACH(post_sigmoid(v));
    case POST_SWISH:
        EACH(v * post_sigmoid(v));
    case POST_EXP:
        EACH(post_exponential(v));
    case POST_LOG:
        EACH(post_logarithm(v));
    case POST_ELU:
        EACH(post_choose(v < 0, a * post_exponential_less_one(v), v));
    case POST_TANH:
        EACH(hyperbolic_tangent(v));
    case POST_GELU_TANH:
        EACH(0.5f * v * (1 + hyperbolic_tangent(0.79788456f * (v + 0.044715f * v * v * v))));
    case POST_ERF:
        EACH(post_erf(v));
    case POST_GELU:
        EACH(0.5f * v * (1 + post_erf(v * 0.70710678f)));
    case POST_SOFTPLUS:
        EACH(post_softplus_series(v));
    case POST_MISH:
        EACH(post_mish(v));
    case POST_SWOOSH:
        EACH(post_softplus_series(v - a) - 0.08f * v - b);
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

KERNEL(bool, all_are_waves, (const float *x, size_t n), (x, n))
{
    int others = 0;
    for (size_t i = 0; i < n; i++)
        others |= !(fabsf(x[i]) <= 1);
    return !others;
}

static void post_waves(const struct graph_post *post, float *x, size_t n)
{
    post_simple(post, x, n);
    if (all_are_waves(x, n))
        return;
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= 1))
            x[i] = post->kind == POST_SIN ? sinf(x[i]) : cosf(x[i]);
}

void elements_post(const struct graph_post *post, float *x, size_t n)
{
    switch (post->kind) {
    case POST_SIN:
    case POST_COS:
        post_waves(post, x, n);
        break;
    case POST_SIGMOID:
    case POST_SWISH:
        if (sigmoid_fits()) {
            sigmoid_many(post->kind == POST_SWISH, x, n);
            break;
        }
        post_simple(post, x, n);
        break;
    case POST_ERF:
    case POST_GELU:
        if (erf_fits()) {
            erf_many(post->kind == POST_GELU, x, n);
            break;
        }
        // fallthrough
    default:
        post_simple(post, x, n);
    }
}

// As elements_post(), by libm where that is better.
static void post_carefully(const struct graph_post *post, float *x, size_t n)
{
    switch (post->kind) {
    case POST_ELU:
        EACH(v < 0 ? post->alpha * expm1f(v) : v);
    case POST_ERF:
        EACH(erff(v));
    case POST_LOG:
        EACH(logf(v));
    case POST_SIN:
        EACH(sinf(v));
    case POST_COS:
        EACH(cosf(v));
    case POST_GELU:
        EACH(0.5f * v * (1 + erff(v * 0.70710678f)));
    case POST_SOFTPLUS:
        EACH(post_softplus(v));
    case POST_MISH:
        EACH(v * tanhf(post_softplus(v)));
    case POST_SWOOSH:
        EACH(post_softplus(v - post->alpha) - 0.08f * v - post->beta);
    case POST_SIGMOID: // a table is the same on every CPU
    case POST_SWISH:
        post_simple(post, x, n);
        break;
    default:
        elements_post(post, x, n);
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
        post_carefully(&posts[i], v, 256);
    elements_store(to, table, 256, v);
}
