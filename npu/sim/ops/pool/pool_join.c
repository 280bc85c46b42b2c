// Windows that are separable: lines are joined downwards into one, then that along itself, so a
// window of k x k costs 2k instead of k² operations, on long contiguous loops:
//
//   lines under the window   [line 0]
//                            [line 1]  -> [joined line] -> taps 0 … k-1 along it -> [output]
//                            [line 2]
//
// Tested by test_sim_cases_pool and test_sim_fp16.
#include <math.h>
#include <string.h>

#include "npu/sim/ops/pool/pool.h"
#include "npu/sim/ops/pool/pool_largest.h"
#include "npu/sim/simd/kernel.h"

// The bits of fp16 as int16 of the same order: positive numbers have it already, negative ones the
// reverse, which flipping all bits but the sign corrects.
static inline int16_t fp16_order(int16_t bits)
{
    return (int16_t)(bits ^ (bits < 0 ? 0x7fff : 0));
}

#define LANES 16 // channels that are joined at once where there are many pixels

// y = expression of a (y itself) and b (x), for contiguous pixels of y and pixels of x that are
// x_step elements apart. As many channels as a vector has are joined on copies of them, without
// which compilers ask first whether there are more.
#define LANES_OF(name, y_type, x_type, expression)                                                 \
    static inline __attribute__((always_inline)) void name##_lanes(y_type *to, const x_type *from) \
    {                                                                                              \
        y_type into[LANES];                                                                        \
        x_type some[LANES];                                                                        \
        memcpy(into, to, sizeof into);                                                             \
        memcpy(some, from, sizeof some);                                                           \
        for (size_t i = 0; i < LANES; i++) {                                                       \
            y_type a = into[i];                                                                    \
            x_type b = some[i];                                                                    \
            into[i] = (y_type)(expression);                                                        \
        }                                                                                          \
        memcpy(to, into, sizeof into);                                                             \
    }

// Sums are vectors to begin with: compilers leave copies of them in memory.
#define LANES_SUM(name, y_type, x_type)                                                            \
    static inline __attribute__((always_inline)) void name##_lanes(y_type *to, const x_type *from) \
    {                                                                                              \
        typedef y_type sums __attribute__((vector_size(LANES * sizeof(y_type)), aligned(1)));      \
        typedef x_type terms __attribute__((vector_size(LANES * sizeof(x_type)), aligned(1)));     \
        *(sums *)to += __builtin_convertvector(*(const terms *)from, sums);                        \
    }

#define JOIN(name, y_type, x_type, expression)                                                     \
    KERNEL(void, name, (void *y, const void *x, size_t x_step, size_t pixels, size_t channels),    \
           (y, x, x_step, pixels, channels))                                                       \
    {                                                                                              \
        y_type *restrict to = y;                                                                   \
        const x_type *restrict from = x;                                                           \
        bool whole = pixels > 1 && channels % LANES == 0;                                          \
        for (size_t k = 0; k < pixels; k++, to += channels, from += x_step) {                      \
            for (size_t i = 0; whole && i < channels; i += LANES)                                  \
                name##_lanes(to + i, from + i);                                                    \
            for (size_t i = 0; !whole && i < channels; i++) {                                      \
                y_type a = to[i];                                                                  \
                x_type b = from[i];                                                                \
                to[i] = (y_type)(expression);                                                      \
            }                                                                                      \
        }                                                                                          \
    }

#define LARGER(a, b)      ((a) > (b) ? (a) : (b))
#define LARGER_FP16(a, b) (fp16_order(a) > fp16_order(b) ? (a) : (b))

LANES_OF(larger_i8, int8_t, int8_t, LARGER(a, b))
LANES_OF(larger_f32, float, float, LARGER(a, b))
LANES_OF(larger_f16, int16_t, int16_t, LARGER_FP16(a, b))
LANES_SUM(add_stored_i8, int16_t, int8_t)
LANES_SUM(add_stored_i16, int16_t, int16_t)
JOIN(larger_i8, int8_t, int8_t, LARGER(a, b))
JOIN(larger_f32, float, float, LARGER(a, b))
JOIN(larger_f16, int16_t, int16_t, LARGER_FP16(a, b))
JOIN(add_stored_i8, int16_t, int8_t, a + b)
JOIN(add_stored_i16, int16_t, int16_t, a + b)

// y = the largest of three taps, for the same pixels, on any CPU (pool_largest.h): nothing of y is
// read, and most windows are no larger. Of fewer taps the last one is there more than once, which
// changes nothing; nor does it that a pixel's last LANES channels may have been joined before.
#define JOIN_THREE(name, type, larger)                                                             \
    static inline __attribute__((always_inline)) void name##_each(                                 \
        type *restrict to, const type *a, const type *b, const type *c, size_t n)                  \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            type v = larger(a[i], b[i]);                                                           \
            to[i] = larger(v, c[i]);                                                               \
        }                                                                                          \
    }                                                                                              \
    KERNEL(void, name,                                                                             \
           (void *y, const void *const taps[3], size_t x_step, size_t pixels, size_t channels),    \
           (y, taps, x_step, pixels, channels))                                                    \
    {                                                                                              \
        type *restrict to = y;                                                                     \
        const type *a = taps[0], *b = taps[1], *c = taps[2];                                       \
        bool many = pixels > 1 && channels >= LANES;                                               \
        for (size_t k = 0; k < pixels; k++, to += channels, a += x_step, b += x_step, c += x_step) \
            if (!many)                                                                             \
                name##_each(to, a, b, c, channels);                                                \
            else                                                                                   \
                for (size_t i = 0; i < channels; i += LANES) {                                     \
                    size_t at = i + LANES <= channels ? i : channels - LANES;                      \
                    name##_each(to + at, a + at, b + at, c + at, LANES);                           \
                }                                                                                  \
    }

JOIN_THREE(largest_three_i8, int8_t, LARGER)
JOIN_THREE(largest_three_f32, float, LARGER)
JOIN_THREE(largest_three_f16, int16_t, LARGER_FP16)

static void fill_lowest_i8(void *y, size_t n)
{
    memset(y, INT8_MIN, n);
}

static void fill_lowest_f32(void *y, size_t n)
{
    float *floats = y;
    for (size_t i = 0; i < n; i++)
        floats[i] = -INFINITY;
}

static void fill_lowest_f16(void *y, size_t n)
{
    uint16_t *bits = y;
    for (size_t i = 0; i < n; i++)
        bits[i] = 0xfc00; // -infinity
}

static void fill_zeros_i16(void *y, size_t n)
{
    memset(y, 0, n * sizeof(int16_t));
}

// How windows become one element each: first downwards, then along the line.
struct joint {
    size_t image, element; // bytes of an element of the image, and of what is made of it
    void (*fill)(void *y, size_t n);
    void (*down)(void *y, const void *x, size_t x_step, size_t pixels, size_t channels);
    void (*along)(void *y, const void *x, size_t x_step, size_t pixels, size_t channels);
    // The first three taps at once, both ways; NULL: one by one.
    void (*three)(void *y, const void *const taps[3], size_t x_step, size_t pixels,
                  size_t channels);
    enum tensor_type type; // of the largest
};

static const struct joint largest_i8 = {
    1, 1, fill_lowest_i8, larger_i8, larger_i8, largest_three_i8, TENSOR_INT8};
static const struct joint largest_f32 = {
    4, 4, fill_lowest_f32, larger_f32, larger_f32, largest_three_f32, TENSOR_FLOAT32};
static const struct joint largest_f16 = {
    2, 2, fill_lowest_f16, larger_f16, larger_f16, largest_three_f16, TENSOR_FLOAT16};
static const struct joint sum_i8 = {1,    2,          fill_zeros_i16, add_stored_i8, add_stored_i16,
                                    NULL, TENSOR_INT8};

// How many of a window's first taps are joined at once: a number that pool_largest.h has. What a
// window does not have is its last one again.
static uint32_t join_count(uint32_t taps)
{
    return taps <= 2 ? 2 : taps == 3 ? 3 : POOL_FIRST_TAPS;
}

// Joins the first taps, of which `t` has as many as join_count() says.
static void join_first(const struct joint *j, const struct pool_taps *t)
{
    if (pool_first_taps(j->type, t))
        return;
    const void *three[3] = {t->taps[0], t->taps[1], t->taps[t->n > 2 ? 2 : 1]};
    j->three(t->y, three, t->x_step, t->pixels, t->channels);
    for (uint32_t k = 3; k < t->n; k++)
        j->along(t->y, t->taps[k], t->x_step, t->pixels, t->channels);
}

const struct joint *pool_largest(enum tensor_type type)
{
    return type == TENSOR_INT8 ? &largest_i8 : type == TENSOR_FLOAT16 ? &largest_f16 : &largest_f32;
}

const struct joint *pool_sums(void)
{
    return &sum_i8;
}

// The lines under a window, joined to one.
static void join_lines(const struct window_at *at, const struct joint *j, uint8_t *line)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    size_t n = (size_t)x->dims[3] * x->dims[1];
    uint32_t k = at->y.first, last = at->y.last;
    if (k < last && j->three) {
        struct pool_taps t = {
            .y = line, .n = join_count(last - k), .x_step = n, .pixels = 1, .channels = n};
        for (uint32_t i = 0; i < t.n; i++)
            t.taps[i] = pool_line(at, k + i < last ? k + i : last - 1);
        join_first(j, &t);
        k += t.n;
    } else {
        j->fill(line, n);
    }
    for (; k < last; k++)
        j->down(line, pool_line(at, k), n, 1, n);
}

// Windows of an output line, and the joined line that they are over.
struct along {
    const struct graph_window *w;
    const struct joint *j;
    size_t channels, pixel; // pixel: bytes
    const uint8_t *line;
    uint8_t *dst;
};

static const uint8_t *along_tap(const struct along *a, uint32_t k, uint32_t output)
{
    int64_t from =
        (int64_t)output * a->w->stride[1] + (int64_t)k * a->w->dilation[1] - a->w->pad[1];
    return a->line + (size_t)from * a->pixel;
}

// Joins tap k to the outputs [first, last). With a stride of 1 that is one contiguous loop.
static void along_join(const struct along *a, uint32_t k, uint32_t first, uint32_t last)
{
    if (first >= last)
        return;
    size_t pixels = last - first, together = a->w->stride[1] == 1 ? pixels : 1;
    a->j->along(a->dst + first * a->pixel, along_tap(a, k, first), a->w->stride[1] * a->channels,
                pixels / together, a->channels * together);
}

// Makes the outputs [*ret_first, *ret_last), which have the first taps inside, of these.
static void along_taps(const struct along *a, uint32_t width, uint32_t outputs, uint32_t *ret_first,
                       uint32_t *ret_last)
{
    uint32_t first = 0, last = outputs, k[POOL_FIRST_TAPS], n = join_count(a->w->kernel[1]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from, to;
        k[i] = i < a->w->kernel[1] ? i : a->w->kernel[1] - 1;
        window_outputs(a->w, 1, k[i], width, outputs, &from, &to);
        first = from > first ? from : first;
        last = to < last ? to : last;
    }
    *ret_first = *ret_last = 0;
    if (first >= last)
        return;
    size_t pixels = last - first, together = a->w->stride[1] == 1 ? pixels : 1;
    struct pool_taps t = {.y = a->dst + first * a->pixel,
                          .n = n,
                          .x_step = a->w->stride[1] * a->channels,
                          .pixels = pixels / together,
                          .channels = a->channels * together};
    for (uint32_t i = 0; i < n; i++)
        t.taps[i] = along_tap(a, k[i], first);
    join_first(a->j, &t);
    *ret_first = first;
    *ret_last = last;
}

// Along the joined lines, tap by tap over all windows that have the tap inside.
void pool_join(const struct window_at *at, const struct joint *j, uint8_t *line, uint8_t *dst)
{
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    const struct graph_window *w = &at->s->node->window;
    size_t channels = x->dims[1];
    const struct along a = {w, j, channels, channels * j->element, line, dst};
    uint32_t done[2] = {0, 0}, outputs = y->dims[3];
    join_lines(at, j, line);
    if (j->three)
        along_taps(&a, x->dims[3], outputs, &done[0], &done[1]);
    j->fill(dst, done[0] * channels);
    j->fill(dst + done[1] * a.pixel, (outputs - done[1]) * channels);
    for (uint32_t k = 0; k < w->kernel[1]; k++) {
        uint32_t first, last;
        window_outputs(w, 1, k, x->dims[3], outputs, &first, &last);
        if (k >= join_count(w->kernel[1]) || done[0] == done[1]) {
            along_join(&a, k, first, last);
            continue;
        }
        along_join(&a, k, first, last < done[0] ? last : done[0]);
        along_join(&a, k, first > done[1] ? first : done[1], last);
    }
}
