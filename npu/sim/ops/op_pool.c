// MaxPool and AveragePool of images (channels last), global ones too.
//
//   y[n, c, i, j] = max or mean of x[n, c, i * stride + k * dilation - pad, …] over the window
//
// Five ways, by type:
//   max, same form     stored elements are compared: int8 as they are, fp16 as integers of the same
//                      order
//   mean, one scale    sums of up to 256 int8 elements in 16 bits, then one multiplication
//   mean, ONNX's int8  as ONNX Runtime rounds (ort_int8.h), from sums of integers where the window
//                      covers the image
//   mean, else         lines of the image become floats once; the taps of as many pixels as share
//                      their window's shape are added in vectors, in the order of the window
//   else               in floats, tap by tap, rounded as elements_store() does
//
// The first two are separable: lines are joined downwards into one, then that along itself, so a
// window of k x k costs 2k instead of k² operations, on long contiguous loops:
//
//   lines under the window   [line 0]
//                            [line 1]  -> [joined line] -> taps 0 … k-1 along it -> [output]
//                            [line 2]
//
// Tested by test_sim_cases_pool, test_sim_fp16, test_onnx_nodes and test_onnx_against.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/window.h"
#include "npu/sim/ops/ort_int8.h"
#include "npu/sim/simd/elements.h"

struct pool_step {
    bool max, raw; // raw: stored values are compared as they are
    bool stored;   // averages: stored numbers are added as integers of 16 bits
    bool ort;      // averages as ONNX Runtime makes them of int8
    bool whole;    // ort: of all pixels, from sums of integers
    struct element_form from, to;
    bool joined;    // averages: by taps_add()
    bool direct;    // … of the image's own floats
    uint64_t sums;  // scratch: one pixel's channels, twice; raw: one line; joined: an output line
    uint64_t lines; // stored: the sums of a line's columns, and of its windows; joined: floats of
                    // the lines that a window reaches
    uint64_t taps;  // joined: where they are
};

// Output sizes are floor or ceil of (size + padding - reach) / stride + 1 (ceil_mode).
static int check_size(const struct step *s, const struct graph_tensor *x,
                      const struct graph_tensor *y, struct error *e)
{
    const struct graph_window *w = &s->node->window;
    for (int i = 0; i < 2; i++) {
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t room = (int64_t)x->dims[2 + i] + w->pad[i] + w->pad[2 + i] - reach;
        int64_t floor_size = room / w->stride[i] + 1, ceil_size = floor_size;
        ceil_size += room % w->stride[i] != 0;
        if (room < 0 || (y->dims[2 + i] != floor_size && y->dims[2 + i] != ceil_size))
            return step_refuse(s, e, "an image of %u does not give one of %u", x->dims[2 + i],
                               y->dims[2 + i]);
    }
    return 0;
}

// A global pool: one window over the image.
static bool covers_all(const struct graph_window *w, const struct graph_tensor *x)
{
    return w->kernel[0] == x->dims[2] && w->kernel[1] == x->dims[3] &&
           !(w->pad[0] | w->pad[1] | w->pad[2] | w->pad[3]);
}

// Whether the order of stored values is that of real ones, and the maximum needs no conversion.
static bool compares_raw(const struct graph_tensor *x, const struct graph_tensor *y)
{
    bool same = x->quantized == y->quantized && x->scale == y->scale && x->zp == y->zp;
    bool floats = x->type == TENSOR_FLOAT32 || x->type == TENSOR_FLOAT16;
    return x->type == y->type && ((x->type == TENSOR_INT8 && same) || (floats && !x->quantized));
}

// Whether int16 holds the sum of a window: 256 taps of at most 128.
static bool adds_stored(const struct graph_window *w, const struct element_form *from)
{
    uint64_t taps = (uint64_t)w->kernel[0] * w->kernel[1];
    return from->type == TENSOR_INT8 && from->quantized && from->scale == 1 && taps <= 256;
}

#define MOST_TAPS  1024
#define MOST_LINES (1 << 20) // bytes

// Lines that a window reaches over.
static uint64_t pool_reach(const struct graph_window *w)
{
    return (uint64_t)w->dilation[0] * (w->kernel[0] - 1) + 1;
}

static uint64_t line_floats(const struct graph_tensor *x)
{
    return (uint64_t)x->dims[3] * x->dims[1] * sizeof(float);
}

static int take_taps(struct step *s, struct pool_step *p, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const struct graph_window *w = &s->node->window;
    uint64_t taps = (uint64_t)w->kernel[0] * w->kernel[1];
    int r = step_scratch(s, line_floats(y), &p->sums, e);
    if (r == 0)
        r = step_scratch(s, taps * sizeof(float *), &p->taps, e);
    p->direct = x->type == TENSOR_FLOAT32 && !x->quantized;
    if (r == 0 && !p->direct)
        r = step_scratch(s, pool_reach(w) * line_floats(x), &p->lines, e);
    return r;
}

// Whether averages are made of taps that are joined: windows that are no larger than usual.
static bool joins_taps(const struct step *s, const struct pool_step *p)
{
    const struct graph_window *w = &s->node->window;
    return !p->max && !p->whole && !p->stored &&
           (uint64_t)w->kernel[0] * w->kernel[1] <= MOST_TAPS &&
           pool_reach(w) * line_floats(step_input(s, 0)) <= MOST_LINES;
}

static int take_scratch(struct step *s, struct pool_step *p, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    p->joined = joins_taps(s, p);
    if (p->joined)
        return take_taps(s, p, e);
    uint64_t line = (uint64_t)x->dims[3] * x->dims[1] * tensor_type_size(x->type);
    uint64_t pixels = (uint64_t)x->dims[1] * (p->stored ? y->dims[3] : 2) * sizeof(float);
    uint64_t sums = ((uint64_t)x->dims[3] + y->dims[3]) * x->dims[1] * sizeof(int16_t);
    if (p->stored && step_scratch(s, sums, &p->lines, e) < 0)
        return STATUS_MODEL_INVALID;
    return step_scratch(s, p->raw ? line : pixels, &p->sums, e);
}

static int pool_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct pool_step *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (x->n_dims != 4 || y->n_dims != 4 || !x->channels_last || !y->channels_last ||
        x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] || !x->n_elems || !y->n_elems ||
        !element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "input and output are not images of as many channels");
    element_forms_of_average(x, y, &p->from, &p->to);
    if (s->node->n_post) { // activations take real numbers
        p->from = element_form(x);
        p->to = element_form(y);
    }
    p->max = s->node->op == GRAPH_MAX_POOL;
    p->ort = !p->max && x->rounds_before_zp && y->rounds_before_zp;
    p->whole = p->ort && covers_all(&s->node->window, x);
    if (p->ort)
        p->from = element_form(x);
    p->raw = p->max && compares_raw(x, y) && !s->node->n_post;
    p->stored = !p->max && !p->ort && adds_stored(&s->node->window, &p->from);
    int r = check_size(s, x, y, e);
    return r < 0 ? r : take_scratch(s, p, e);
}

KERNEL(void, max_f32, (float *y, const float *x, size_t n), (y, x, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] > x[i] ? y[i] : x[i];
}

KERNEL(void, add_f32, (float *y, const float *x, size_t n), (y, x, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

// The part of a window that is inside the image, along one dimension: taps [first, last).
struct span {
    uint32_t first, last;
    int64_t start;   // of tap 0, in the image
    uint32_t padded; // taps inside the image and its padding
};

// Output `out` along dimension i of an image of `size`.
static struct span find_span(const struct graph_window *w, int i, uint32_t out, uint32_t size)
{
    struct span s = {.start = (int64_t)out * w->stride[i] - w->pad[i]};
    bool any = false;
    for (uint32_t k = 0; k < w->kernel[i]; k++) {
        int64_t at = s.start + (int64_t)k * w->dilation[i];
        s.padded += at < (int64_t)size + w->pad[2 + i];
        if (at < 0 || at >= size)
            continue;
        s.first = any ? s.first : k;
        s.last = k + 1;
        any = true;
    }
    return s;
}

struct window_at {
    const struct step *s;
    const uint8_t *image; // of the batch's element
    struct span y, x;
};

static const uint8_t *image_line(const struct window_at *at, uint32_t ky)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    int64_t iy = at->y.start + (int64_t)ky * at->s->node->window.dilation[0];
    return at->image + iy * x->dims[3] * x->dims[1] * (int64_t)tensor_type_size(x->type);
}

static const uint8_t *pool_pixel(const struct window_at *at, uint32_t ky, uint32_t kx)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    int64_t ix = at->x.start + (int64_t)kx * at->s->node->window.dilation[1];
    return image_line(at, ky) + ix * x->dims[1] * (int64_t)tensor_type_size(x->type);
}

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

// y = the largest of three taps, for the same pixels: nothing of y is read, and most windows are no
// larger. Of fewer taps the last one is there more than once, which changes nothing.
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
        bool whole = pixels > 1 && channels % LANES == 0;                                          \
        for (size_t k = 0; k < pixels; k++, to += channels, a += x_step, b += x_step, c += x_step) \
            if (!whole)                                                                            \
                name##_each(to, a, b, c, channels);                                                \
            else                                                                                   \
                for (size_t i = 0; i < channels; i += LANES)                                       \
                    name##_each(to + i, a + i, b + i, c + i, LANES);                               \
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
};

static const struct joint largest_i8 = {1,         1,         fill_lowest_i8,
                                        larger_i8, larger_i8, largest_three_i8};
static const struct joint largest_f32 = {4,          4,          fill_lowest_f32,
                                         larger_f32, larger_f32, largest_three_f32};
static const struct joint largest_f16 = {2,          2,          fill_lowest_f16,
                                         larger_f16, larger_f16, largest_three_f16};
static const struct joint sum_i8 = {1, 2, fill_zeros_i16, add_stored_i8, add_stored_i16, NULL};

static const struct joint *largest_of(enum tensor_type type)
{
    return type == TENSOR_INT8 ? &largest_i8 : type == TENSOR_FLOAT16 ? &largest_f16 : &largest_f32;
}

// The lines under a window, joined to one.
static void join_lines(const struct window_at *at, const struct joint *j, uint8_t *line)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    size_t n = (size_t)x->dims[3] * x->dims[1];
    uint32_t k = at->y.first, last = at->y.last;
    if (k < last && j->three) {
        const void *taps[3];
        for (uint32_t i = 0; i < 3; i++)
            taps[i] = image_line(at, k + i < last ? k + i : last - 1);
        j->three(line, taps, n, 1, n);
        k += 3;
    } else {
        j->fill(line, n);
    }
    for (; k < last; k++)
        j->down(line, image_line(at, k), n, 1, n);
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
static void along_three(const struct along *a, uint32_t width, uint32_t outputs,
                        uint32_t *ret_first, uint32_t *ret_last)
{
    uint32_t first = 0, last = outputs, k[3];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t from, to;
        k[i] = i < a->w->kernel[1] ? i : a->w->kernel[1] - 1;
        window_outputs(a->w, 1, k[i], width, outputs, &from, &to);
        first = from > first ? from : first;
        last = to < last ? to : last;
    }
    *ret_first = *ret_last = 0;
    if (first >= last)
        return;
    const void *taps[3];
    for (uint32_t i = 0; i < 3; i++)
        taps[i] = along_tap(a, k[i], first);
    size_t pixels = last - first, together = a->w->stride[1] == 1 ? pixels : 1;
    a->j->three(a->dst + first * a->pixel, taps, a->w->stride[1] * a->channels, pixels / together,
                a->channels * together);
    *ret_first = first;
    *ret_last = last;
}

// One output line. `line` is scratch of the image's width, for the joined lines. Along it, tap by
// tap over all windows that have the tap inside.
static void join_windows(const struct window_at *at, const struct joint *j, uint8_t *line,
                         uint8_t *dst)
{
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    const struct graph_window *w = &at->s->node->window;
    size_t channels = x->dims[1];
    const struct along a = {w, j, channels, channels * j->element, line, dst};
    uint32_t done[2] = {0, 0}, outputs = y->dims[3];
    join_lines(at, j, line);
    if (j->three)
        along_three(&a, x->dims[3], outputs, &done[0], &done[1]);
    j->fill(dst, done[0] * channels);
    j->fill(dst + done[1] * a.pixel, (outputs - done[1]) * channels);
    for (uint32_t k = 0; k < w->kernel[1]; k++) {
        uint32_t first, last;
        window_outputs(w, 1, k, x->dims[3], outputs, &first, &last);
        if (k >= 3 || done[0] == done[1]) {
            along_join(&a, k, first, last);
            continue;
        }
        along_join(&a, k, first, last < done[0] ? last : done[0]);
        along_join(&a, k, first > done[1] ? first : done[1], last);
    }
}

// Maximum or sum of a window, per channel, in floats.
static void gather_real(const struct window_at *at, const struct pool_step *p, float *sums,
                        float *values)
{
    size_t channels = step_input(at->s, 0)->dims[1];
    for (size_t i = 0; i < channels; i++)
        sums[i] = p->max ? -INFINITY : 0;
    for (uint32_t ky = at->y.first; ky < at->y.last; ky++)
        for (uint32_t kx = at->x.first; kx < at->x.last; kx++) {
            elements_load(&p->from, pool_pixel(at, ky, kx), channels, values);
            if (p->max)
                max_f32(sums, values, channels);
            else
                add_f32(sums, values, channels);
        }
}

static uint32_t n_inside(const struct window_at *at)
{
    return (at->y.last - at->y.first) * (at->x.last - at->x.first);
}

KERNEL(void, to_real, (const int16_t *stored, float zeros, float factor, size_t n, float *to),
       (stored, zeros, factor, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = ((float)stored[i] - zeros) * factor;
}

// By what the sum of a window is multiplied.
static float mean_factor(const struct window_at *at)
{
    uint32_t count = at->s->node->window.count_pad ? at->y.padded * at->x.padded : n_inside(at);
    return count ? 1 / (float)count : 0;
}

// One output pixel.
static void pool_real(const struct window_at *at, const struct pool_step *p, float *sums,
                      float *values)
{
    size_t channels = step_input(at->s, 0)->dims[1];
    gather_real(at, p, sums, values);
    if (p->max)
        return;
    float factor = mean_factor(at);
    for (size_t i = 0; i < channels; i++)
        sums[i] *= factor;
}

KERNEL(void, add_i8, (int32_t *restrict sums, const int8_t *x, size_t n), (sums, x, n))
{
    for (size_t i = 0; i < n; i++)
        sums[i] += x[i];
}

// One output pixel of ONNX's int8. With count_include_pad ONNX Runtime divides by the whole kernel,
// also where ceil_mode lets it reach beyond the padding.
static void pool_steps(const struct window_at *at, const struct pool_step *p, float *sums,
                       int8_t *dst)
{
    const struct graph_window *w = &at->s->node->window;
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    size_t channels = x->dims[1];
    if (!p->whole) {
        gather_real(at, p, sums, sums + channels);
        uint32_t count = w->count_pad ? w->kernel[0] * w->kernel[1] : n_inside(at);
        ort_int8_quotient(sums, (float)count, y, dst, channels);
        return;
    }
    int32_t *integers = (int32_t *)sums;
    memset(integers, 0, channels * sizeof *integers);
    uint32_t n_pixels = x->dims[2] * x->dims[3];
    for (uint32_t i = 0; i < n_pixels; i++)
        add_i8(integers, (const int8_t *)at->image + i * channels, channels);
    ort_int8_mean(x, integers, n_pixels, y, dst, channels);
}

static void store_real(const struct pool_step *p, const struct step *s, float *v, size_t n,
                       uint8_t *dst)
{
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], v, n);
    elements_store(&p->to, dst, n, v);
}

// One output line from sums of stored values; the zero point is taken off each as often as it is in
// there.
static void run_stored_line(const struct pool_step *p, struct run *r, struct window_at *at,
                            uint8_t *dst)
{
    const struct step *s = at->s;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t channels = x->dims[1];
    float *means = run_scratch(r, p->sums);
    int16_t *line = run_scratch(r, p->lines), *stored = line + x->dims[3] * channels;
    join_windows(at, &sum_i8, (uint8_t *)line, (uint8_t *)stored);
    for (uint32_t ox = 0; ox < y->dims[3]; ox++) {
        at->x = find_span(&s->node->window, 1, ox, x->dims[3]);
        to_real(stored + ox * channels, (float)p->from.zp * (float)n_inside(at), mean_factor(at),
                channels, means + ox * channels);
    }
    store_real(p, s, means, y->dims[3] * channels, dst);
}

// ---- taps of many pixels ----

typedef float vector __attribute__((vector_size(64)));

#define VECTOR (sizeof(vector) / sizeof(float))

static inline __attribute__((always_inline)) void
taps_add_vectors(float *y, const float *const *taps, size_t n_taps, size_t at, size_t vectors)
{
    vector sums[4] = {0}, v;
    for (size_t t = 0; t < n_taps; t++)
        for (size_t k = 0; k < vectors; k++) {
            memcpy(&v, taps[t] + at + k * VECTOR, sizeof v);
            sums[k] += v;
        }
    memcpy(y + at, sums, vectors * sizeof *sums);
}

// y[i] = Σ taps[t][i], in the order of the taps.
KERNEL(void, taps_add, (float *y, const float *const *taps, size_t n_taps, size_t n),
       (y, taps, n_taps, n))
{
    size_t i = 0;
    for (; i + 4 * VECTOR <= n; i += 4 * VECTOR)
        taps_add_vectors(y, taps, n_taps, i, 4);
    for (; i + VECTOR <= n; i += VECTOR)
        taps_add_vectors(y, taps, n_taps, i, 1);
    for (; i < n; i++) {
        float sum = 0;
        for (size_t t = 0; t < n_taps; t++)
            sum += taps[t][i];
        y[i] = sum;
    }
}

// A line of the image as floats.
static const float *pool_floats(const struct window_at *at, const struct pool_step *p,
                                const struct run *r, int64_t iy)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    size_t line = (size_t)x->dims[3] * x->dims[1];
    if (p->direct)
        return (const float *)(const void *)at->image + iy * (int64_t)line;
    return (float *)run_scratch(r, p->lines) +
           (uint64_t)iy % pool_reach(&at->s->node->window) * line;
}

// Converts the lines up to the window's last one, from *ready on. They take turns in memory for as
// many as a window reaches.
static void pool_convert(const struct window_at *at, const struct pool_step *p, const struct run *r,
                         int64_t *ready)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    size_t line = (size_t)x->dims[3] * x->dims[1], size = tensor_type_size(x->type);
    int64_t first = at->y.start + (int64_t)at->y.first * at->s->node->window.dilation[0];
    int64_t end = at->y.start + ((int64_t)at->y.last - 1) * at->s->node->window.dilation[0] + 1;
    for (int64_t iy = *ready > first ? *ready : first; iy < end && at->y.last; iy++)
        elements_load(&p->from, at->image + (size_t)iy * line * size, line,
                      (float *)(uintptr_t)pool_floats(at, p, r, iy));
    *ready = end > *ready ? end : *ready;
}

// How many windows from `ox` on have the shape of at->x, with their taps behind each other.
static uint32_t count_alike(const struct window_at *at, uint32_t ox)
{
    const struct graph_window *w = &at->s->node->window;
    uint32_t n = 1, width = step_input(at->s, 0)->dims[3];
    for (; w->stride[1] == 1 && ox + n < step_output(at->s, 0)->dims[3]; n++) {
        struct span next = find_span(w, 1, ox + n, width);
        if (next.first != at->x.first || next.last != at->x.last || next.padded != at->x.padded)
            break;
    }
    return n;
}

// Sums of `n` pixels to outputs.
static void store_taps(const struct window_at *at, const struct pool_step *p, float *sums, size_t n,
                       uint8_t *dst)
{
    const struct graph_window *w = &at->s->node->window;
    if (p->ort) {
        uint32_t count = w->count_pad ? w->kernel[0] * w->kernel[1] : n_inside(at);
        ort_int8_quotient(sums, (float)count, step_output(at->s, 0), (int8_t *)dst, n);
        return;
    }
    float factor = mean_factor(at);
    for (size_t i = 0; i < n; i++)
        sums[i] *= factor;
    store_real(p, at->s, sums, n, dst);
}

static void run_joined_line(const struct pool_step *p, struct run *r, struct window_at *at,
                            int64_t *ready, uint8_t *dst)
{
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    const struct graph_window *w = &at->s->node->window;
    size_t channels = x->dims[1], pixel = channels * tensor_type_size(y->type);
    const float **taps = run_scratch(r, p->taps);
    float *sums = run_scratch(r, p->sums);
    if (!p->direct)
        pool_convert(at, p, r, ready);
    for (uint32_t ox = 0, count; ox < y->dims[3]; ox += count) {
        size_t n = 0;
        at->x = find_span(w, 1, ox, x->dims[3]);
        count = count_alike(at, ox);
        for (uint32_t ky = at->y.first; ky < at->y.last; ky++) {
            const float *line = pool_floats(at, p, r, at->y.start + (int64_t)ky * w->dilation[0]);
            for (uint32_t kx = at->x.first; kx < at->x.last; kx++)
                taps[n++] = line + (at->x.start + (int64_t)kx * w->dilation[1]) * (int64_t)channels;
        }
        taps_add(sums, taps, n, count * channels);
        store_taps(at, p, sums, count * channels, dst + ox * pixel);
    }
}

// ---- lines ----

// One output line, window by window.
static void run_line(const struct pool_step *p, struct run *r, struct window_at *at, uint8_t *dst)
{
    const struct step *s = at->s;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t channels = x->dims[1], pixel_size = channels * tensor_type_size(y->type);
    float *sums = run_scratch(r, p->sums);
    for (uint32_t ox = 0; ox < y->dims[3]; ox++, dst += pixel_size) {
        at->x = find_span(&s->node->window, 1, ox, x->dims[3]);
        if (p->ort) {
            pool_steps(at, p, sums, (int8_t *)dst);
            continue;
        }
        pool_real(at, p, sums, sums + channels);
        store_real(p, s, sums, channels, dst);
    }
}

static int pool_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct pool_step *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    size_t line = (size_t)y->dims[3] * y->dims[1] * tensor_type_size(y->type);
    uint8_t *dst = run_output(s, r, 0);
    struct window_at at = {.s = s, .image = run_input(s, r, 0)};
    for (uint32_t n = 0; n < x->dims[0]; n++, at.image += x->size / x->dims[0]) {
        int64_t ready = 0;
        for (uint32_t oy = 0; oy < y->dims[2]; oy++, dst += line) {
            at.y = find_span(&s->node->window, 0, oy, x->dims[2]);
            if (p->raw)
                join_windows(&at, largest_of(x->type), run_scratch(r, p->sums), dst);
            else if (p->stored)
                run_stored_line(p, r, &at, dst);
            else if (p->joined)
                run_joined_line(p, r, &at, &ready, dst);
            else
                run_line(p, r, &at, dst);
        }
    }
    return 0;
}

const struct op op_pool = {.prepare = pool_prepare, .run = pool_run};
