// Arithmetic on rows of half precision.
#include "npu/sim/simd/avx512.h"

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

bool half_join_knows(enum graph_op op)
{
    return op == GRAPH_ADD || op == GRAPH_SUB || op == GRAPH_MUL;
}

#ifdef KERNEL_V4
V4_INLINE void join_lanes(const enum graph_op op, __mmask16 lanes, const uint16_t *a,
                          const uint16_t *b, struct half_bounds bounds, uint16_t *y)
{
    __m512 v = lanes_load_halves(lanes, a), w = lanes_load_halves(lanes, b);
    lanes_store_halves(lanes, lanes_join(op, v, w), bounds, y);
}

V4_INLINE void join(const enum graph_op op, const uint16_t *a, const uint16_t *b, size_t n,
                    struct half_bounds bounds, uint16_t *y)
{
    size_t i = 0;
    for (; i + V4_LANES <= n; i += V4_LANES)
        join_lanes(op, V4_ALL, a + i, b + i, bounds, y + i);
    if (i < n)
        join_lanes(op, V4_REST(n), a + i, b + i, bounds, y + i);
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

V4_INLINE void scale_lanes(__mmask16 lanes, const uint16_t *x, const float *factor,
                           const float *term, struct half_bounds bounds, uint16_t *y)
{
    __m512 f = _mm512_maskz_loadu_ps(lanes, factor), t = _mm512_maskz_loadu_ps(lanes, term);
    lanes_store_halves(lanes, _mm512_fmadd_ps(lanes_load_halves(lanes, x), f, t), bounds, y);
}

KERNEL_V4 void half_scale(const void *x, const float *factor, const float *term, size_t n,
                          struct half_bounds bounds, void *y)
{
    const uint16_t *from = x;
    uint16_t *to = y;
    size_t i = 0;
    for (; i + V4_LANES <= n; i += V4_LANES)
        scale_lanes(V4_ALL, from + i, factor + i, term + i, bounds, to + i);
    if (i < n)
        scale_lanes(V4_REST(n), from + i, factor + i, term + i, bounds, to + i);
}
#else
void half_join(enum graph_op op, const void *a, const void *b, size_t n, struct half_bounds bounds,
               void *y)
{
    (void)op, (void)a, (void)b, (void)n, (void)bounds, (void)y;
    abort(); // kernel_has_v4() is never true
}

void half_scale(const void *x, const float *factor, const float *term, size_t n,
                struct half_bounds bounds, void *y)
{
    (void)x, (void)factor, (void)term, (void)n, (void)bounds, (void)y;
    abort();
}
#endif
