// Vectors of half precision with AVX512, for functions that run where kernel_has_v4().
#pragma once

#include "npu/sim/half_join.h"
#include "npu/sim/rows.h"

#ifdef KERNEL_V4
#include <immintrin.h>

#define HALF_INLINE  KERNEL_V4 static inline __attribute__((always_inline))
#define HALF_LANES   16
#define HALF_ALL     UINT16_MAX
#define HALF_REST(n) ((__mmask16)((1u << (n) % HALF_LANES) - 1)) // the last lanes of n

HALF_INLINE __m512 half_lanes_load(__mmask16 lanes, const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, x));
}

// Of two zeros, and of what is no number, these instructions take the second operand. Stores with a
// mask are slow.
HALF_INLINE void half_lanes_store(__mmask16 lanes, __m512 v, struct half_bounds bounds, uint16_t *y)
{
    v = _mm512_max_ps(_mm512_set1_ps(bounds.low), v);
    v = _mm512_min_ps(_mm512_set1_ps(bounds.high), v);
    __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    if (lanes == HALF_ALL)
        _mm256_storeu_si256((void *)y, halves);
    else
        _mm256_mask_storeu_epi16(y, lanes, halves);
}
#endif
