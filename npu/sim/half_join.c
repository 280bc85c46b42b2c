// Arithmetic on rows of half precision.
#include "npu/sim/half_lanes.h"

#include <math.h>
#include <stdlib.h>

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
HALF_INLINE void join_lanes(const enum graph_op op, __mmask16 lanes, const uint16_t *a,
                            const uint16_t *b, struct half_bounds bounds, uint16_t *y)
{
    __m512 v = half_lanes_load(lanes, a), w = half_lanes_load(lanes, b);
    v = op == GRAPH_ADD   ? _mm512_add_ps(v, w)
        : op == GRAPH_SUB ? _mm512_sub_ps(v, w)
                          : _mm512_mul_ps(v, w);
    half_lanes_store(lanes, v, bounds, y);
}

HALF_INLINE void join(const enum graph_op op, const uint16_t *a, const uint16_t *b, size_t n,
                      struct half_bounds bounds, uint16_t *y)
{
    size_t i = 0;
    for (; i + HALF_LANES <= n; i += HALF_LANES)
        join_lanes(op, HALF_ALL, a + i, b + i, bounds, y + i);
    if (i < n)
        join_lanes(op, HALF_REST(n), a + i, b + i, bounds, y + i);
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

HALF_INLINE void scale_lanes(__mmask16 lanes, const uint16_t *x, const float *factor,
                             const float *term, struct half_bounds bounds, uint16_t *y)
{
    __m512 f = _mm512_maskz_loadu_ps(lanes, factor), t = _mm512_maskz_loadu_ps(lanes, term);
    half_lanes_store(lanes, _mm512_fmadd_ps(half_lanes_load(lanes, x), f, t), bounds, y);
}

KERNEL_V4 void half_scale(const void *x, const float *factor, const float *term, size_t n,
                          struct half_bounds bounds, void *y)
{
    const uint16_t *from = x;
    uint16_t *to = y;
    size_t i = 0;
    for (; i + HALF_LANES <= n; i += HALF_LANES)
        scale_lanes(HALF_ALL, from + i, factor + i, term + i, bounds, to + i);
    if (i < n)
        scale_lanes(HALF_REST(n), from + i, factor + i, term + i, bounds, to + i);
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
