// The error function of floats with AVX512 and AVX2: polynomials of parts of |x|, whose
// coefficients lie in registers.
//
//   |x|        0   WIDTH   2 WIDTH  …         the middles of parts
//   erf |x| =  c0 + c1 r + c2 r² + …          r = |x| - the part's middle, c by the part's number
//
// One permutation looks up a coefficient for each lane: of 32 parts with AVX512, where polynomials
// of degree 4 do, and of 8 with AVX2, of degree 7. The first part's c0 is 0, so that what is near 0
// has all its digits; the last part's function is 1, which erf is in floats from 3.83 on.
//
// The coefficients were fitted at Chebyshev's points for the least relative error, by Lawson's
// weights: what they add to the error is a tenth of a rounding, with AVX512 less than one.
//
// Tests: test_sim_erf.
#include "npu/sim/simd/functions/erf.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

#define ROUNDS   0x1.8p23f // a float that is added to it loses its fraction
#define ROOT     0.70710678f
#define SIGN_BIT INT32_MIN

#ifdef KERNEL_AVX512
#define WIDTH_512  0.125f
#define MOST_512   3.93f // in the last part
#define DEGREE_512 4

// [power][part]
// clang-format off
static const float erf_parts_32[][32] = {
    {0.0f, 0.140316203f, 0.276326388f, 0.404116899f, 0.520499885f, 0.623240888f, 0.711155653f,
     0.784075081f, 0.842700779f, 0.888388216f, 0.92290014f, 0.948170066f, 0.966105163f,
     0.978443742f, 0.986671686f, 0.99199003f, 0.995322287f, 0.997345984f, 0.998537302f,
     0.999217033f, 0.999593019f, 0.999794602f, 0.999899387f, 0.999952137f, 0.999977887f,
     0.999990106f, 0.999995708f, 0.999998212f, 0.999999285f, 0.999999702f, 0.999999881f, 1.0f},
    {1.12837911f, 1.11088479f, 1.06001377f, 0.980352581f, 0.87878257f, 0.763499677f, 0.642931342f,
     0.524745345f, 0.415107816f, 0.31827426f, 0.236521348f, 0.170359924f, 0.118930362f,
     0.0804722682f, 0.0527749658f, 0.0335457735f, 0.0206669234f, 0.0123407608f, 0.00714226812f,
     0.00400643796f, 0.002178255f, 0.00114785496f, 0.000586264068f, 0.000290220109f,
     0.000139248194f, 6.47559282e-05f, 2.9187524e-05f, 1.27509575e-05f, 5.39903385e-06f,
     2.21573077e-06f, 8.81344192e-07f, 0.0f},
    {6.86692283e-06f, -0.138853624f, -0.265000641f, -0.367630839f, -0.43939057f, -0.477186948f,
     -0.482198328f, -0.459152132f, -0.415107816f, -0.358058572f, -0.295651764f, -0.234245002f,
     -0.178395689f, -0.130767599f, -0.092356354f, -0.0628984794f, -0.0413339734f, -0.0262242202f,
     -0.0160701815f, -0.00951534603f, -0.00544567592f, -0.00301314425f, -0.00161224185f,
     -0.000834392151f, -0.00041774998f, -0.000202365263f, -9.48610614e-05f, -4.30353066e-05f,
     -1.8897028e-05f, -8.03221883e-06f, -3.30513035e-06f, 0.0f},
    {-0.376676023f, -0.358222514f, -0.308781564f, -0.234654725f, -0.146428347f, -0.055805441f,
     0.0265291464f, 0.0925957337f, 0.138031617f, 0.16215308f, 0.167305484f, 0.157788247f,
     0.13867934f, 0.114830151f, 0.0901894942f, 0.0674969554f, 0.0482868068f, 0.033098381f,
     0.0217765793f, 0.013771343f, 0.00837996975f, 0.00491103437f, 0.00277385744f, 0.00151091197f,
     0.000794071937f, 0.000402842241f, 0.000197345289f, 9.33846459e-05f, 4.26976221e-05f,
     1.88676877e-05f, 8.05963555e-06f, 0.0f},
    {0.01408213f, 0.0668230057f, 0.126093388f, 0.166023448f, 0.182714969f, 0.176242933f,
     0.150597319f, 0.112413518f, 0.0692825764f, 0.0281222798f, -0.00599031243f, -0.0303384904f,
     -0.0444632508f, -0.0496204756f, -0.048041638f, -0.0422325358f, -0.0344423167f, -0.0263735354f,
     -0.019103352f, -0.0131545449f, -0.00864152145f, -0.00542966044f, -0.00326944864f,
     -0.00188955863f, -0.00104944804f, -0.000560669636f, -0.0002883735f, -0.000142890785f,
     -6.82503596e-05f, -3.14396093e-05f, -1.39735403e-05f, 0.0f},
};
// clang-format on

struct erf_table_512 {
    __m512 low[DEGREE_512 + 1], high[DEGREE_512 + 1];
};

AVX512_INLINE void erf_load_512(struct erf_table_512 *t)
{
#pragma GCC unroll 5
    for (int i = 0; i <= DEGREE_512; i++) {
        t->low[i] = _mm512_loadu_ps(erf_parts_32[i]);
        t->high[i] = _mm512_loadu_ps(erf_parts_32[i] + AVX512_LANES);
    }
}

AVX512_INLINE __m512 erf_16(const struct erf_table_512 *t, __m512 x)
{
    const __m512i sign = _mm512_set1_epi32(SIGN_BIT);
    __m512i bits = _mm512_castps_si512(x);
    // Of NaN the second operand is taken.
    __m512 size = _mm512_min_ps(_mm512_set1_ps(MOST_512),
                                _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits)));
    __m512 shifted = _mm512_fmadd_ps(size, _mm512_set1_ps(1 / WIDTH_512), _mm512_set1_ps(ROUNDS));
    __m512i part = _mm512_castps_si512(shifted); // its last 5 bits are
    __m512 n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUNDS));
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(WIDTH_512), size);
    __m512 y = _mm512_permutex2var_ps(t->low[DEGREE_512], part, t->high[DEGREE_512]);
#pragma GCC unroll 4
    for (int i = DEGREE_512 - 1; i >= 0; i--)
        y = _mm512_fmadd_ps(y, r, _mm512_permutex2var_ps(t->low[i], part, t->high[i]));
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_castps_si512(y), _mm512_and_si512(sign, bits)));
}

AVX512_INLINE __m512 erf_or_gelu_16(const struct erf_table_512 *t, __m512 x, const bool gelu)
{
    if (!gelu)
        return erf_16(t, x);
    __m512 half = _mm512_mul_ps(x, _mm512_set1_ps(.5f));
    return _mm512_fmadd_ps(half, erf_16(t, _mm512_mul_ps(x, _mm512_set1_ps(ROOT))), half);
}

AVX512_INLINE void erf_all_512(float *x, size_t n, const bool gelu)
{
    struct erf_table_512 t;
    size_t i = 0;
    erf_load_512(&t);
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        _mm512_storeu_ps(x + i, erf_or_gelu_16(&t, _mm512_loadu_ps(x + i), gelu));
    if (i == n)
        return;
    __mmask16 lanes = AVX512_TAIL(n - i);
    __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
    _mm512_mask_storeu_ps(x + i, lanes, erf_or_gelu_16(&t, v, gelu));
}

KERNEL_AVX512 static void erf_512(bool gelu, float *x, size_t n)
{
    if (gelu)
        erf_all_512(x, n, true);
    else
        erf_all_512(x, n, false);
}
#endif

#ifdef KERNEL_AVX2
#define WIDTH_256  0.5625f
#define MOST_256   4.2f // in the last part
#define ONE_256    3.83f
#define DEGREE_256 7

// clang-format off
static const float erf_parts_8[][8] = {
    {0.0f, 0.57367444f, 0.888388216f, 0.982989728f, 0.998537302f, 0.999930322f, 0.999998212f, 1.0f},
    {1.12837923f, 0.822321415f, 0.318273962f, 0.0654234812f, 0.00714231981f, 0.000414112146f,
     1.27516887e-05f, 2.08977923e-07f},
    {-3.20743645e-08f, -0.462554753f, -0.358058929f, -0.110402122f, -0.016070094f, -0.00116470398f,
     -4.30439977e-05f, -8.12105156e-07f},
    {-0.37612465f, -0.10065259f, 0.162452668f, 0.102394864f, 0.0217244308f, 0.002045742f,
     9.25901404e-05f, 2.19008393e-06f},
    {-3.56080236e-05f, 0.182427824f, 0.0280192923f, -0.0495953187f, -0.0190911796f, -0.00248773f,
     -0.000141454017f, -3.10448036e-06f},
    {0.113175221f, -0.0107545219f, -0.0613304749f, 0.00274506002f, 0.0106624849f, 0.00218653376f,
     0.000163492834f, 8.56186034e-06f},
    {-0.00155953597f, -0.0452984013f, 0.014601524f, 0.0116895316f, -0.00274651847f, -0.00140390487f,
     -0.000155163507f, 2.02687784e-06f},
    {-0.0238392279f, 0.00897197053f, 0.0096177971f, -0.00607255474f, -0.000742140401f,
     0.000584697525f, 0.000106373169f, 1.63748828e-05f},
};
// clang-format on

AVX2_INLINE __m256 erf_8(__m256 x)
{
    const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32(SIGN_BIT));
    const __m256 one = _mm256_set1_ps(1);
    __m256 size = _mm256_min_ps(_mm256_set1_ps(MOST_256), _mm256_andnot_ps(sign, x));
    __m256 shifted = _mm256_fmadd_ps(size, _mm256_set1_ps(1 / WIDTH_256), _mm256_set1_ps(ROUNDS));
    __m256i part = _mm256_castps_si256(shifted); // its last 3 bits are
    __m256 n = _mm256_sub_ps(shifted, _mm256_set1_ps(ROUNDS));
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(WIDTH_256), size);
    __m256 y = _mm256_permutevar8x32_ps(_mm256_loadu_ps(erf_parts_8[DEGREE_256]), part);
#pragma GCC unroll 7
    for (int i = DEGREE_256 - 1; i >= 0; i--)
        y = _mm256_fmadd_ps(y, r, _mm256_permutevar8x32_ps(_mm256_loadu_ps(erf_parts_8[i]), part));
    y = _mm256_blendv_ps(y, one, _mm256_cmp_ps(size, _mm256_set1_ps(ONE_256), _CMP_GT_OQ));
    return _mm256_or_ps(y, _mm256_and_ps(sign, x));
}

AVX2_INLINE __m256 erf_or_gelu_8(__m256 x, const bool gelu)
{
    if (!gelu)
        return erf_8(x);
    __m256 half = _mm256_mul_ps(x, _mm256_set1_ps(.5f));
    return _mm256_fmadd_ps(half, erf_8(_mm256_mul_ps(x, _mm256_set1_ps(ROOT))), half);
}

AVX2_INLINE void erf_all_256(float *x, size_t n, const bool gelu)
{
    size_t i = 0;
    float last[AVX2_LANES] = {0};
    for (; i + AVX2_LANES <= n; i += AVX2_LANES)
        _mm256_storeu_ps(x + i, erf_or_gelu_8(_mm256_loadu_ps(x + i), gelu));
    if (i == n)
        return;
    memcpy(last, x + i, (n - i) * sizeof *x);
    _mm256_storeu_ps(last, erf_or_gelu_8(_mm256_loadu_ps(last), gelu));
    memcpy(x + i, last, (n - i) * sizeof *x);
}

KERNEL_AVX2 static void erf_256(bool gelu, float *x, size_t n)
{
    if (gelu)
        erf_all_256(x, n, true);
    else
        erf_all_256(x, n, false);
}
#endif

bool erf_fits(void)
{
    return kernel_has_avx2();
}

void erf_many(bool gelu, float *x, size_t n)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        erf_512(gelu, x, n);
    else
        erf_256(gelu, x, n);
#else
    (void)gelu, (void)x, (void)n;
    abort(); // erf_fits() is never true
#endif
}
