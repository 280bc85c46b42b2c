// Arithmetic on rows of half precision.
#include "npu/sim/half_join.h"

#include <math.h>
#include <stdlib.h>

#include "npu/sim/rows.h"

bool half_bounds(const struct graph_post *posts, uint32_t n_posts, struct half_bounds *ret)
{
    *ret = (struct half_bounds){-INFINITY, INFINITY};
    if (n_posts == 1 && posts->kind == POST_RELU)
        ret->low = 0;
    else if (n_posts == 1 && posts->kind == POST_CLIP && posts->alpha <= posts->beta)
        *ret = (struct half_bounds){posts->alpha, posts->beta};
    else
        return n_posts == 0;
    return true;
}

bool half_join_can(void)
{
    return kernel_has_v4();
}

bool half_join_knows(enum graph_op op)
{
    return op == GRAPH_ADD || op == GRAPH_SUB || op == GRAPH_MUL;
}

#ifdef KERNEL_V4
#include <immintrin.h>

#define INLINE  KERNEL_V4 static inline __attribute__((always_inline))
#define LANES   16
#define ALL     UINT16_MAX
#define REST(n) ((__mmask16)((1u << (n) % LANES) - 1)) // the lanes of the last elements of n

INLINE __m512 load(__mmask16 lanes, const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, x));
}

// Of two zeros, and of what is no number, these instructions take the second operand. Stores with a
// mask are slow.
INLINE void store(__mmask16 lanes, __m512 v, struct half_bounds bounds, uint16_t *y)
{
    v = _mm512_max_ps(_mm512_set1_ps(bounds.low), v);
    v = _mm512_min_ps(_mm512_set1_ps(bounds.high), v);
    __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    if (lanes == ALL)
        _mm256_storeu_si256((void *)y, halves);
    else
        _mm256_mask_storeu_epi16(y, lanes, halves);
}

INLINE void join_lanes(const enum graph_op op, __mmask16 lanes, const uint16_t *a,
                       const uint16_t *b, struct half_bounds bounds, uint16_t *y)
{
    __m512 v = load(lanes, a), w = load(lanes, b);
    v = op == GRAPH_ADD   ? _mm512_add_ps(v, w)
        : op == GRAPH_SUB ? _mm512_sub_ps(v, w)
                          : _mm512_mul_ps(v, w);
    store(lanes, v, bounds, y);
}

INLINE void join(const enum graph_op op, const uint16_t *a, const uint16_t *b, size_t n,
                 struct half_bounds bounds, uint16_t *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        join_lanes(op, ALL, a + i, b + i, bounds, y + i);
    if (i < n)
        join_lanes(op, REST(n), a + i, b + i, bounds, y + i);
}

KERNEL_V4 void half_join(enum graph_op op, const void *a, const void *b, size_t n,
                         struct half_bounds bounds, void *y)
{
    if (op == GRAPH_ADD)
        join(GRAPH_ADD, a, b, n, bounds, y);
    else if (op == GRAPH_SUB)
        join(GRAPH_SUB, a, b, n, bounds, y);
    else
        join(GRAPH_MUL, a, b, n, bounds, y);
}

INLINE void scale_lanes(__mmask16 lanes, const uint16_t *x, const float *factor, const float *term,
                        struct half_bounds bounds, uint16_t *y)
{
    __m512 f = _mm512_maskz_loadu_ps(lanes, factor), t = _mm512_maskz_loadu_ps(lanes, term);
    store(lanes, _mm512_fmadd_ps(load(lanes, x), f, t), bounds, y);
}

KERNEL_V4 void half_scale(const void *x, const float *factor, const float *term, size_t n,
                          struct half_bounds bounds, void *y)
{
    const uint16_t *from = x;
    uint16_t *to = y;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        scale_lanes(ALL, from + i, factor + i, term + i, bounds, to + i);
    if (i < n)
        scale_lanes(REST(n), from + i, factor + i, term + i, bounds, to + i);
}
#else
void half_join(enum graph_op op, const void *a, const void *b, size_t n, struct half_bounds bounds,
               void *y)
{
    (void)op, (void)a, (void)b, (void)n, (void)bounds, (void)y;
    abort(); // half_join_can() is never true
}

void half_scale(const void *x, const float *factor, const float *term, size_t n,
                struct half_bounds bounds, void *y)
{
    (void)x, (void)factor, (void)term, (void)n, (void)bounds, (void)y;
    abort();
}
#endif
