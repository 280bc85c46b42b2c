// conv_floats_tile.h with AVX512: up to 24 of the 32 registers hold sums.
//
//   vectors    1    2    3    4
//   pixels    24   12    8    6
//
// A float of a pixel is broadcast by the load (of one vector by the multiplication itself), so that
// shuffles have no part in it. Of the last channels vectors are masked only where nothing behind
// them will be written anyway: stores with a mask are slow.
//
// Tests: test_sim_conv.
#include "npu/sim/conv/floats/conv_floats.h"
#include "npu/sim/simd/avx512.h"

#ifdef KERNEL_AVX512
#define TARGET       KERNEL_AVX512
#define LANES        AVX512_LANES
#define MAX_SUMS     24
#define MAX_VECTORS  4
#define LOAD(x)      _mm512_loadu_ps(x)
#define BROADCAST(x) _mm512_set1_ps(*(x))
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b)    _mm512_add_ps(a, b)
#define MAX(a, b)    _mm512_max_ps(a, b)
#define MIN(a, b)    _mm512_min_ps(a, b)
typedef __m512 vector;

AVX512_INLINE __m256i floats_halves(vector v)
{
    // The intrinsic without a mask is a macro with a signed mask when not optimizing: it warns.
    return _mm512_maskz_cvtps_ph(AVX512_ALL, v, _MM_FROUND_TO_NEAREST_INT);
}

AVX512_INLINE void floats_store(void *to, size_t o, vector v, const bool fp16)
{
    if (fp16)
        _mm256_storeu_si256((void *)((uint16_t *)to + o), floats_halves(v));
    else
        _mm512_storeu_ps((float *)to + o, v);
}

AVX512_INLINE void floats_store_first(void *to, size_t o, vector v, size_t n, const bool fp16)
{
    if (fp16)
        _mm256_mask_storeu_epi16((uint16_t *)to + o, AVX512_TAIL(n), floats_halves(v));
    else
        _mm512_mask_storeu_ps((float *)to + o, AVX512_TAIL(n), v);
}

#include "npu/sim/conv/floats/conv_floats_tile.h"

UP_TO_24(FUNCTION, 1)
UP_TO_12(FUNCTION, 2)
UP_TO_8(FUNCTION, 3)
UP_TO_6(FUNCTION, 4)

static void floats_sum_avx512(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][MOST] = {
        {UP_TO_24(NAME, 1)}, {UP_TO_12(NAME, 2)}, {UP_TO_8(NAME, 3)}, {UP_TO_6(NAME, 4)}};
    static const size_t max_pixels[] = {24, 12, 8, 6};
    floats_sum_all(functions, max_pixels, p, n, n_vectors);
}

const struct floats_level conv_floats_avx512 = {LANES, MAX_VECTORS, floats_sum_avx512};
#else
const struct floats_level conv_floats_avx512;
#endif
