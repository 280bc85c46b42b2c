// With AVX512 a block's parts are two vectors, and a comparison of them is a mask.
#include "npu/sim/ops/observe/observe_block.h"

#include "npu/sim/simd/avx512.h"

#ifdef KERNEL_AVX512
AVX512_INLINE uint32_t block_beyond_avx512(const struct observe_bounds *b, float low, float high)
{
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(b->min), _mm512_set1_ps(low), _CMP_LT_OQ) |
           _mm512_cmp_ps_mask(_mm512_loadu_ps(b->max), _mm512_set1_ps(high), _CMP_GT_OQ);
}

KERNEL_AVX512 static uint32_t blocks_beyond_avx512(const struct observe_block *b, uint64_t n,
                                                   float low, float high, uint32_t most)
{
    uint32_t parts = 0;
    for (uint64_t at = 0; at < n && parts <= most; at++)
        parts += (uint32_t)__builtin_popcount(block_beyond_avx512(&b[at].bounds, low, high));
    return parts;
}

KERNEL_AVX512 static uint64_t blocks_next_avx512(const struct observe_block *b, uint64_t at,
                                                 uint64_t n, float low, float high)
{
    while (at < n && !block_beyond_avx512(&b[at].bounds, low, high))
        at++;
    return at;
}

KERNEL_AVX512 static void blocks_join_avx512(const struct observe_block *b, uint64_t n,
                                             struct observer_bounds *all)
{
    __m512 low = _mm512_set1_ps(all->min), high = _mm512_set1_ps(all->max);
    for (uint64_t at = 0; at < n; at++) {
        low = _mm512_min_ps(low, _mm512_loadu_ps(b[at].bounds.min));
        high = _mm512_max_ps(high, _mm512_loadu_ps(b[at].bounds.max));
    }
    all->min = _mm512_reduce_min_ps(low);
    all->max = _mm512_reduce_max_ps(high);
}
#else
static uint32_t blocks_beyond_avx512(const struct observe_block *b, uint64_t n, float low,
                                     float high, uint32_t most)
{
    (void)b, (void)n, (void)low, (void)high;
    return most;
}

static uint64_t blocks_next_avx512(const struct observe_block *b, uint64_t at, uint64_t n,
                                   float low, float high)
{
    (void)b, (void)n, (void)low, (void)high;
    return at;
}

static void blocks_join_avx512(const struct observe_block *b, uint64_t n,
                               struct observer_bounds *all)
{
    (void)b, (void)n, (void)all;
}
#endif

static uint32_t block_beyond(const struct observe_bounds *b, float low, float high)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < OBSERVE_PARTS; i++)
        n += (uint32_t)((b->min[i] < low) | (b->max[i] > high));
    return n;
}

uint32_t observe_blocks_beyond(const struct observe_block *b, uint64_t n, float low, float high,
                               uint32_t most)
{
    uint32_t parts = 0;
    if (kernel_has_avx512())
        return blocks_beyond_avx512(b, n, low, high, most);
    for (uint64_t at = 0; at < n && parts <= most; at++)
        parts += block_beyond(&b[at].bounds, low, high);
    return parts;
}

uint64_t observe_blocks_next(const struct observe_block *b, uint64_t at, uint64_t n, float low,
                             float high)
{
    if (kernel_has_avx512())
        return blocks_next_avx512(b, at, n, low, high);
    while (at < n && !block_beyond(&b[at].bounds, low, high))
        at++;
    return at;
}

void observe_blocks_join(const struct observe_block *b, uint64_t n, struct observer_bounds *all)
{
    if (kernel_has_avx512()) {
        blocks_join_avx512(b, n, all);
        return;
    }
    for (uint64_t at = 0; at < n; at++)
        for (uint32_t i = 0; i < OBSERVE_PARTS; i++) {
            const struct observe_bounds *own = &b[at].bounds;
            all->min = own->min[i] < all->min ? own->min[i] : all->min;
            all->max = own->max[i] > all->max ? own->max[i] : all->max;
        }
}
