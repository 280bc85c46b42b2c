// The inner loops of conv_floats.h, for each level of instructions. A tile is n pixels x n_vectors;
// for each float of each segment:
//
//   weights[v]    = load a vector                      once for all pixels
//   x             = broadcast a float of pixel i       once for all vectors
//   sums[i][v]   += x * weights[v]
//
// Why it is fast: sums stay in registers, up to MAX_SUMS of them, until outputs are made of them.
// Pixels are split evenly over tiles. Loops over the tile are unrolled: there is a function for
// each size.
//
// Whoever includes this has defined TARGET, LANES, MAX_SUMS, MAX_VECTORS, vector, and of vectors:
// LOAD, BROADCAST, FMA, ADD, MAX and MIN (NaN: the second operand), and
//   floats_store(to, o, v, fp16), floats_store_first(to, o, v, n, fp16)
// which store all lanes, or the first n, as the output from the o-th on.
#define INLINE TARGET static inline __attribute__((always_inline))

// Adds one segment. Every third pixel has a pointer; the two behind it are reached by addressing
// modes, so that all addresses stay in registers.
INLINE void floats_sum_segment(const struct floats_pixels *p, const float *at, const float *w,
                               vector *sums, const int n, const int n_vectors)
{
    const float *x[(MAX_SUMS + 2) / 3];
    size_t pitch = p->pitch;
#pragma GCC unroll 8
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
    for (size_t k = 0; k < p->segment; k++, w += LANES * n_vectors) {
        vector weights[MAX_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            weights[v] = LOAD(w + LANES * v);
#pragma GCC unroll 24
        for (int i = 0; i < n; i++) {
            vector one = BROADCAST(x[i / 3] + (size_t)(i % 3) * pitch + k);
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++)
                sums[i * n_vectors + v] = FMA(one, weights[v], sums[i * n_vectors + v]);
        }
    }
}

// What is the same for all pixels is read before the first one is stored. Pixels go forward: what
// one writes too much the next one overwrites.
INLINE void floats_store_tile(const struct floats_pixels *p, size_t first, const vector *sums,
                              const int n, const int n_vectors, const bool fp16)
{
    const vector low = BROADCAST(&p->bounds.low), high = BROADCAST(&p->bounds.high);
    const size_t left = p->left, step = p->channels * (fp16 ? sizeof(uint16_t) : sizeof(float));
    uint8_t *to = (uint8_t *)p->to + first * step;
    vector bias[MAX_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
        bias[v] = LOAD(p->bias + LANES * v);
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, to += step) {
        __asm__("" : "+r"(to)); // else all addresses are computed first, and registers run out
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            vector y = MIN(high, MAX(low, ADD(sums[i * n_vectors + v], bias[v])));
            const size_t o = (size_t)v * LANES;
            if (v + 1 < n_vectors || left >= o + LANES || first + (size_t)i < p->whole)
                floats_store(to, o, y, fp16);
            else
                floats_store_first(to, o, y, left - o, fp16);
        }
    }
}

INLINE void floats_sum_tile(const struct floats_pixels *p, size_t first, const int n,
                            const int n_vectors)
{
    vector sums[MAX_SUMS];
    const float *w = p->weights;
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = (vector){0};
    for (size_t i = 0; i < p->n_segments; i++, w += p->segment * LANES * (size_t)n_vectors)
        floats_sum_segment(p, p->segments[i] + first * p->pitch, w, sums, n, n_vectors);
    if (p->fp16)
        floats_store_tile(p, first, sums, n, n_vectors, true);
    else
        floats_store_tile(p, first, sums, n, n_vectors, false);
}

#define UP_TO_4(X, v)  X(1, v) X(2, v) X(3, v) X(4, v)
#define UP_TO_6(X, v)  UP_TO_4(X, v) X(5, v) X(6, v)
#define UP_TO_8(X, v)  UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_12(X, v) UP_TO_8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define UP_TO_16(X, v) UP_TO_12(X, v) X(13, v) X(14, v) X(15, v) X(16, v)
#define UP_TO_24(X, v)                                                                             \
    UP_TO_16(X, v) X(17, v) X(18, v) X(19, v) X(20, v) X(21, v) X(22, v) X(23, v) X(24, v)
#define FUNCTION(n, v)                                                                             \
    TARGET static void floats_sum_##n##_##v(const struct floats_pixels *p, size_t first)           \
    {                                                                                              \
        floats_sum_tile(p, first, n, v);                                                           \
    }
#define NAME(n, v) floats_sum_##n##_##v,
#define MOST       24 // pixels

typedef void floats_sum(const struct floats_pixels *p, size_t first);

static void floats_sum_all(floats_sum *const functions[][MOST], const size_t *max_pixels,
                           const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    size_t most = max_pixels[n_vectors - 1], tiles = (n + most - 1) / most;
    for (size_t first = 0, count; tiles; tiles--, first += count) {
        count = (n - first + tiles - 1) / tiles;
        functions[n_vectors - 1][count - 1](p, first);
    }
}
