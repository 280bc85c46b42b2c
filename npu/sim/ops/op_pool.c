// MaxPool and AveragePool of images (channels last), global ones too.
//
//   y[n, c, i, j] = max or mean of x[n, c, i * stride + k * dilation - pad, …] over the window
//
// Five ways, by type:
//   max, same form     stored elements are compared: int8 as they are, fp16 as integers of the same
//                      order
//   mean, one scale    sums of up to 256 int8 elements in 16 bits, then one multiplication, by
//                      the chip's reciprocals where it is a chip's
//   mean, ONNX's int8  as ONNX Runtime rounds (ort_int8.h), from sums of integers where the window
//                      covers the image, or where that is nearly always the same
//   mean, else         lines of the image become floats once; the taps of as many pixels as share
//                      their window's shape are added in vectors, in the order of the window
//   else               in floats, tap by tap, rounded as elements_store() does
//
// The first two are separable (pool/pool_join.c), and so are means from sums of integers.
//
// Tested by test_sim_pool, test_sim_cases_pool, test_sim_fp16, test_onnx_nodes and
// test_onnx_against.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/ops/ort_int8.h"
#include "npu/sim/ops/pool/pool.h"
#include "npu/sim/simd/elements.h"

struct pool_step {
    bool max, raw;    // raw: stored values are compared as they are
    bool stored;      // averages: stored numbers are added as integers of 16 bits
    bool reciprocals; // … and multiplied as a chip's pool does it
    bool ort;         // averages as ONNX Runtime makes them of int8
    bool whole;       // ort: of all pixels, from sums of integers
    bool summed;      // ort: from sums of integers of 16 bits
    bool sure;        // … none of which is open
    struct element_form from, to;
    bool joined;      // averages: by pool_add_taps()
    bool direct;      // … of the image's own floats
    uint64_t sums;    // scratch: one pixel's channels, twice; raw: one line; joined: an output line
                      // and a pixel's channels
    uint64_t lines;   // joined: floats of the lines that a window reaches
    uint64_t taps;    // joined: where they are
    uint64_t windows; // stored, summed: the sums of a line's columns, and of its windows
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

// Whether the unit of a chip's pool makes all averages, each of a whole window: it multiplies sums
// with reciprocals of the window's sides. What counts beyond the image is known of padding that
// counts.
static bool multiplies_by_reciprocals(const struct step *s)
{
    enum { MAX_KERNEL = 16 }; // of one step
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const struct graph_window *w = &s->node->window;
    bool known = s->node->program && !s->node->n_post && y->type == TENSOR_INT8;
    for (int i = 0; i < 2; i++) {
        uint32_t pads = w->pad[i] + w->pad[2 + i];
        int64_t end = ((int64_t)y->dims[2 + i] - 1) * w->stride[i] + w->kernel[i];
        known = known && w->kernel[i] <= MAX_KERNEL && (!pads || w->count_pad) &&
                end <= (int64_t)x->dims[2 + i] + pads;
    }
    return known;
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
    int r = step_scratch(s, line_floats(y) + x->dims[1] * sizeof(float), &p->sums, e);
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

static uint32_t ort_divisor(const struct window_at *at)
{
    const struct graph_window *w = &at->s->node->window;
    return w->count_pad ? w->kernel[0] * w->kernel[1] : pool_inside(at);
}

// Whether a whole window's sums of integers are seldom open.
static bool sums_are_near(const struct step *s, bool *ret_sure)
{
    const struct graph_window *w = &s->node->window;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    return x->type == TENSOR_INT8 && y->type == TENSOR_INT8 && x->quantized && y->quantized &&
           !s->node->n_post &&
           ort_int8_means_pay(x, (uint64_t)w->kernel[0] * w->kernel[1], y, ret_sure);
}

static int take_sums(struct step *s, struct pool_step *p, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    uint64_t sums = ((uint64_t)x->dims[3] + y->dims[3]) * x->dims[1] * sizeof(int16_t);
    return step_scratch(s, sums, &p->windows, e);
}

static int take_scratch(struct step *s, struct pool_step *p, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    p->joined = joins_taps(s, p);
    p->summed = p->ort && p->joined && sums_are_near(s, &p->sure);
    if (p->summed && take_sums(s, p, e) < 0)
        return STATUS_MODEL_INVALID;
    if (p->joined)
        return take_taps(s, p, e);
    uint64_t line = (uint64_t)x->dims[3] * x->dims[1] * tensor_type_size(x->type);
    uint64_t pixels = (uint64_t)x->dims[1] * (p->stored ? y->dims[3] : 2) * sizeof(float);
    if (p->stored && take_sums(s, p, e) < 0)
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
    p->reciprocals = p->stored && multiplies_by_reciprocals(s);
    return r < 0 ? r : take_scratch(s, p, e);
}

KERNEL(void, max_f32, (float *y, const float *x, size_t n), (y, x, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] > x[i] ? y[i] : x[i];
}

// Adds the window's pixels of one line, in their order, as many at a time as lie behind each other.
static void add_line(const struct window_at *at, const struct pool_step *p, uint32_t ky,
                     float *sums, float *value)
{
    size_t channels = step_input(at->s, 0)->dims[1], n = at->x.last - at->x.first, count;
    const uint8_t *pixel = pool_pixel(at, ky, at->x.first);
    float chunk[ELEMENTS_CHUNK];
    bool follow = at->s->node->window.dilation[1] == 1;
    bool floats = p->from.type == TENSOR_FLOAT32 && !p->from.quantized;
    if (follow && floats && (uintptr_t)pixel % sizeof(float) == 0) {
        pool_add_pixels(sums, (const float *)(const void *)pixel, n, channels);
        return;
    }
    size_t together = follow && channels <= ELEMENTS_CHUNK ? ELEMENTS_CHUNK / channels : 1;
    float *values = channels <= ELEMENTS_CHUNK ? chunk : value;
    for (size_t k = 0; k < n; k += count) {
        count = n - k < together ? n - k : together;
        pixel = pool_pixel(at, ky, at->x.first + (uint32_t)k);
        elements_load(&p->from, pixel, count * channels, values);
        pool_add_pixels(sums, values, count, channels);
    }
}

// Maximum or sum of a window, per channel, in floats.
static void gather_real(const struct window_at *at, const struct pool_step *p, float *sums,
                        float *values)
{
    size_t channels = step_input(at->s, 0)->dims[1];
    for (size_t i = 0; i < channels; i++)
        sums[i] = p->max ? -INFINITY : 0;
    for (uint32_t ky = at->y.first; ky < at->y.last; ky++) {
        for (uint32_t kx = at->x.first; p->max && kx < at->x.last; kx++) {
            elements_load(&p->from, pool_pixel(at, ky, kx), channels, values);
            max_f32(sums, values, channels);
        }
        if (!p->max)
            add_line(at, p, ky, sums, values);
    }
}

KERNEL(void, to_real, (const int16_t *stored, float zeros, float factor, size_t n, float *to),
       (stored, zeros, factor, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = ((float)stored[i] - zeros) * factor;
}

// A double holds the product of 16 and 32 bits.
KERNEL(void, to_chips, (const int16_t *stored, int32_t more, double factor, size_t n, int8_t *to),
       (stored, more, factor, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = (int8_t)rint((stored[i] + more) * factor);
}

KERNEL(void, multiply_sums, (float *sums, float factor, size_t n), (sums, factor, n))
{
    for (size_t i = 0; i < n; i++)
        sums[i] *= factor;
}

// One output pixel.
static void pool_real(const struct window_at *at, const struct pool_step *p, float *sums,
                      float *values)
{
    size_t channels = step_input(at->s, 0)->dims[1];
    gather_real(at, p, sums, values);
    if (p->max)
        return;
    multiply_sums(sums, pool_mean_factor(at), channels);
}

// One output pixel of ONNX's int8. With count_include_pad ONNX Runtime divides by the whole kernel,
// also where ceil_mode lets it reach beyond the padding.
static void pool_steps(const struct window_at *at, const struct pool_step *p, float *sums,
                       int8_t *dst)
{
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    size_t channels = x->dims[1];
    if (!p->whole) {
        gather_real(at, p, sums, sums + channels);
        ort_int8_quotient(sums, (float)ort_divisor(at), y, dst, channels);
        return;
    }
    int32_t *integers = (int32_t *)sums;
    memset(integers, 0, channels * sizeof *integers);
    uint32_t n_pixels = x->dims[2] * x->dims[3];
    pool_add_bytes(integers, (const int8_t *)at->image, n_pixels, channels);
    ort_int8_mean(x, integers, n_pixels, y, dst, channels);
}

static void store_real(const struct pool_step *p, const struct step *s, float *v, size_t n,
                       uint8_t *dst)
{
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], v, n);
    elements_store(&p->to, dst, n, v);
}

// How many windows from `ox` on have the shape of at->x: those that lie in the image as it does.
static uint32_t count_alike(const struct window_at *at, uint32_t ox)
{
    const struct graph_window *w = &at->s->node->window;
    uint32_t outputs = step_output(at->s, 0)->dims[3], taps = w->kernel[1];
    int64_t last = at->x.start + (int64_t)w->dilation[1] * (taps - 1);
    if (at->x.last - at->x.first != taps)
        return 1; // at a border
    uint64_t more = (uint64_t)(step_input(at->s, 0)->dims[3] - 1 - last) / w->stride[1];
    return more < outputs - ox ? (uint32_t)more + 1 : outputs - ox;
}

// `n` elements of an output line from sums of stored values, as the chip's pool makes them: what is
// outside of the image is its zero point.
static void store_by_reciprocals(const struct window_at *at, const int16_t *stored, size_t n,
                                 int8_t *dst)
{
    const uint32_t *kernel = at->s->node->window.kernel;
    int32_t outside = (int32_t)(kernel[0] * kernel[1] - pool_inside(at));
    const uint32_t reciprocals[2] = {0x10000 / kernel[0], 0x10000 / kernel[1]}; // cut off
    double factor = ldexp((double)reciprocals[0] * reciprocals[1], -32);
    to_chips(stored, outside * step_input(at->s, 0)->zp, factor, n, dst);
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
    int16_t *line = run_scratch(r, p->windows), *stored = line + x->dims[3] * channels;
    pool_join(at, pool_sums(), (uint8_t *)line, (uint8_t *)stored);
    for (uint32_t ox = 0, count; ox < y->dims[3]; ox += count) {
        at->x = pool_span(&s->node->window, 1, ox, x->dims[3]);
        count = count_alike(at, ox);
        if (p->reciprocals) {
            store_by_reciprocals(at, stored + ox * channels, count * channels,
                                 (int8_t *)dst + ox * channels);
            continue;
        }
        to_real(stored + ox * channels, (float)p->from.zp * (float)pool_inside(at),
                pool_mean_factor(at), count * channels, means + ox * channels);
    }
    if (!p->reciprocals)
        store_real(p, s, means, y->dims[3] * channels, dst);
}

// One mean of a window that is `pixels` to the right of at's, in floats.
static int8_t mean_in_floats(const struct window_at *at, const struct pool_step *p, size_t pixels,
                             size_t channel)
{
    const size_t more = pixels * step_input(at->s, 0)->dims[1] + channel;
    float sum = 0, value;
    int8_t mean;
    for (uint32_t ky = at->y.first; ky < at->y.last; ky++)
        for (uint32_t kx = at->x.first; kx < at->x.last; kx++) {
            elements_load(&p->from, pool_pixel(at, ky, kx) + more, 1, &value);
            sum += value;
        }
    ort_int8_quotient(&sum, (float)ort_divisor(at), step_output(at->s, 0), &mean, 1);
    return mean;
}

#define TOGETHER 128 // means: of so many few are open

// The means of `n` sums of windows of at's shape, from the window at's on.
static void store_means(const struct window_at *at, const struct pool_step *p,
                        const struct ort_int8_means *means, const int16_t *sums, size_t n,
                        int8_t *dst)
{
    const size_t channels = step_input(at->s, 0)->dims[1], step = at->s->node->window.stride[1];
    for (size_t first = 0, count; first < n; first += count) {
        count = p->sure || n - first < TOGETHER ? n - first : TOGETHER;
        if (!ort_int8_means_run(means, p->sure, sums + first, dst + first, count))
            continue;
        for (size_t i = first; i < first + count; i++)
            if (ort_int8_is_open(means, sums[i]))
                dst[i] = mean_in_floats(at, p, i / channels * step, i % channels);
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
    int64_t first = at->y.start > 0 ? at->y.start : 0; // other windows may see what lies between
    int64_t end = at->y.start + ((int64_t)at->y.last - 1) * at->s->node->window.dilation[0] + 1;
    for (int64_t iy = *ready > first ? *ready : first; iy < end && at->y.last; iy++)
        elements_load(&p->from, at->image + (size_t)iy * line * size, line,
                      (float *)(uintptr_t)pool_floats(at, p, r, iy));
    *ready = end > *ready ? end : *ready;
}

// Sums of `n` pixels to outputs.
static void store_taps(const struct window_at *at, const struct pool_step *p, float *sums, size_t n,
                       uint8_t *dst)
{
    if (p->ort) {
        ort_int8_quotient(sums, (float)ort_divisor(at), step_output(at->s, 0), (int8_t *)dst, n);
        return;
    }
    multiply_sums(sums, pool_mean_factor(at), n);
    if ((uint8_t *)sums != dst)
        store_real(p, at->s, sums, n, dst);
    else
        for (uint32_t i = 0; i < at->s->node->n_post; i++)
            elements_post(&at->s->node->post[i], sums, n);
}

static void run_joined_line(const struct pool_step *p, struct run *r, struct window_at *at,
                            int64_t *ready, uint8_t *dst)
{
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    const struct graph_window *w = &at->s->node->window;
    size_t channels = x->dims[1], pixel = channels * tensor_type_size(y->type);
    const float **taps = run_scratch(r, p->taps);
    bool in_place = p->to.type == TENSOR_FLOAT32 && !p->to.quantized;
    if (!p->direct)
        pool_convert(at, p, r, ready);
    for (uint32_t ox = 0, count; ox < y->dims[3]; ox += count) {
        size_t n = 0;
        float *sums = in_place ? (float *)(void *)(dst + ox * pixel) : run_scratch(r, p->sums);
        at->x = pool_span(w, 1, ox, x->dims[3]);
        count = count_alike(at, ox);
        for (uint32_t ky = at->y.first; ky < at->y.last; ky++) {
            const float *line = pool_floats(at, p, r, at->y.start + (int64_t)ky * w->dilation[0]);
            for (uint32_t kx = at->x.first; kx < at->x.last; kx++)
                taps[n++] = line + (at->x.start + (int64_t)kx * w->dilation[1]) * (int64_t)channels;
        }
        pool_add_taps(sums,
                      &(struct pool_windows){taps, n, w->stride[1] * channels, count, channels});
        store_taps(at, p, sums, count * channels, dst + ox * pixel);
    }
}

// One output line of ONNX's int8 from sums of integers. Where windows lie beside the image other
// divisors may have many ties: there floats are added, of lines, or of a pixel's channels.
static void run_summed_line(const struct pool_step *p, struct run *r, struct window_at *at,
                            int64_t *ready, int8_t *dst)
{
    const struct graph_window *w = &at->s->node->window;
    const struct graph_tensor *x = step_input(at->s, 0), *y = step_output(at->s, 0);
    const size_t channels = x->dims[1];
    int16_t *line = run_scratch(r, p->windows), *sums = line + x->dims[3] * channels;
    if (!w->count_pad && at->y.last - at->y.first < w->kernel[0]) {
        run_joined_line(p, r, at, ready, (uint8_t *)dst);
        return;
    }
    pool_join(at, pool_sums(), (uint8_t *)line, (uint8_t *)sums);
    for (uint32_t ox = 0, count; ox < y->dims[3]; ox += count) {
        at->x = pool_span(w, 1, ox, x->dims[3]);
        count = count_alike(at, ox);
        if (ort_divisor(at) < w->kernel[0] * w->kernel[1]) {
            pool_steps(at, p, run_scratch(r, p->sums), dst + ox * channels);
            continue;
        }
        const struct ort_int8_means means = ort_int8_means(x, pool_inside(at), ort_divisor(at), y);
        store_means(at, p, &means, sums + ox * channels, count * channels, dst + ox * channels);
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
        at->x = pool_span(&s->node->window, 1, ox, x->dims[3]);
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
            at.y = pool_span(&s->node->window, 0, oy, x->dims[2]);
            if (p->raw)
                pool_join(&at, pool_largest(x->type), run_scratch(r, p->sums), dst);
            else if (p->stored)
                run_stored_line(p, r, &at, dst);
            else if (p->summed)
                run_summed_line(p, r, &at, &ready, (int8_t *)dst);
            else if (p->joined)
                run_joined_line(p, r, &at, &ready, dst);
            else
                run_line(p, r, &at, dst);
        }
    }
    return 0;
}

const struct op op_pool = {.prepare = pool_prepare, .run = pool_run};
