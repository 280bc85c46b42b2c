// Convolutions of integers without oneDNN, and the zero points of weights.
#include "npu/sim/conv.h"

#define SHORT_ROW 64 // channels

// ---- preparation ----

static int32_t nz_of(const struct graph_conv_quant *q, size_t taps, uint32_t o, size_t tap)
{
    return q->nz_in_taps ? q->nz[o * taps + tap] : q->nz[o];
}

// Repeats each tap's weights for all pixels of a line, where rows would be short otherwise.
static int repeat_weights(struct step *s, struct conv *c, size_t taps, struct error *e)
{
    size_t channels = c->oc;
    c->repeat = c->window.stride[1] == 1 && channels < SHORT_ROW;
    if (!c->repeat)
        return 0;
    int16_t *repeated = step_alloc(s, taps * c->ow * channels, sizeof *repeated);
    if (!repeated)
        return error_no_memory(e, "a weight", taps * c->ow * channels * sizeof *repeated);
    for (size_t i = 0; i < taps * c->ow; i++)
        memcpy(repeated + i * channels, c->weights + i / c->ow * channels,
               channels * sizeof *repeated);
    c->weights = repeated;
    return 0;
}

// Weights with their zero points added, in the order of the plain kernels.
static int widen_weights(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    const struct graph_conv_quant *q = s->node->quant;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups;
    c->weights = step_alloc(s, c->oc * inputs * taps, sizeof *c->weights);
    if (!c->weights)
        return error_no_memory(e, "a weight", c->oc * inputs * taps * 2);
    for (uint32_t o = 0; o < c->oc; o++)
        for (size_t i = 0; i < inputs; i++)
            for (size_t tap = 0; tap < taps; tap++) {
                int32_t value = w[(o * inputs + i) * taps + tap] + nz_of(q, taps, o, tap);
                size_t at =
                    c->kernel == CONV_DEPTHWISE ? tap * c->oc + o : (o * taps + tap) * inputs + i;
                c->weights[at] = (int16_t)value;
            }
    return c->kernel == CONV_DEPTHWISE ? repeat_weights(s, c, taps, e) : 0;
}

// Σ (w + nz) of one output channel.
static int64_t sum_weights(const struct graph_conv_quant *q, const int8_t *w, size_t inputs,
                           size_t taps, uint32_t o)
{
    int64_t sum = 0, nz = 0;
    for (size_t k = 0; k < inputs * taps; k++)
        sum += w[k];
    for (size_t tap = 0; tap < taps; tap++)
        nz += nz_of(q, taps, o, tap);
    return sum + (int64_t)inputs * nz;
}

// The bias without the term for the image's zero point: kernels subtract that themselves.
static void correct_bias(const struct step *s, struct conv *c, const int8_t *w)
{
    const struct graph_conv_quant *q = s->node->quant;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups;
    for (uint32_t o = 0; o < c->oc; o++) {
        int64_t sum = sum_weights(q, w + o * inputs * taps, inputs, taps, o);
        c->bias[o] = (int32_t)(q->bias[o] + (q->bias_holds_zp ? c->x_zp * sum : 0));
    }
}

int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e)
{
    const struct graph_conv_quant *q = s->node->quant;
    c->x_zp = step_input(s, 0)->zp;
    c->bias = step_alloc(s, c->oc, sizeof *c->bias);
    c->scale = step_alloc(s, c->oc, sizeof *c->scale);
    if (!c->bias || !c->scale || q->n != c->oc)
        return error_no_memory(e, "a bias", c->oc * sizeof *c->bias);
    if (c->x_zp < -128 || c->x_zp > 127)
        return step_refuse(s, e, "its input's zero point is %d", c->x_zp);
    for (uint32_t o = 0; o < c->oc; o++)
        c->scale[o] = (float)q->scale[o];
    int r = conv_steps_prepare(s, c, e);
    if (r < 0)
        return r;
    correct_bias(s, c, w);
    if (c->kernel != CONV_DNN)
        return widen_weights(s, c, w, e);
    if (q->nz_in_taps)
        return step_refuse(s, e, "zero points of each tap are only known of depthwise weights");
    bool any = false;
    for (uint32_t o = 0; o < c->oc; o++)
        any = any || q->nz[o];
    if (!any)
        return 0;
    c->nz = step_alloc(s, c->oc, sizeof *c->nz);
    if (!c->nz)
        return error_no_memory(e, "zero points", c->oc * sizeof *c->nz);
    for (uint32_t o = 0; o < c->oc; o++)
        c->nz[o] = q->nz[o];
    return 0;
}

// ---- window sums ----

// Sums of `inputs` neighbours each, less `zero`.
KERNEL static void sum_channels(const int8_t *restrict x, size_t n_sums, size_t inputs,
                                int32_t zero, int32_t *restrict sums)
{
    switch (inputs) { // the few channels of first layers, in one go
    case 1:
        for (size_t i = 0; i < n_sums; i++)
            sums[i] = x[i] - zero;
        break;
    case 3:
        for (size_t i = 0; i < n_sums; i++)
            sums[i] = x[3 * i] + x[3 * i + 1] + x[3 * i + 2] - zero;
        break;
    default:
        for (size_t i = 0; i < n_sums; i++) {
            int32_t sum = 0;
            for (size_t k = 0; k < inputs; k++)
                sum += x[i * inputs + k];
            sums[i] = sum - zero;
        }
    }
}

// The outputs along a dimension whose tap k lies inside: [*first, *last).
static void inside(const struct graph_window *w, int dim, uint32_t k, uint32_t n_in, uint32_t n_out,
                   uint32_t *first, uint32_t *last)
{
    int64_t start = (int64_t)k * w->dilation[dim] - w->pad[dim], stride = w->stride[dim];
    int64_t low = start < 0 ? (-start + stride - 1) / stride : 0;
    int64_t high = n_in > start ? (n_in - 1 - start) / stride + 1 : 0;
    high = high > n_out ? n_out : high;
    *first = (uint32_t)(low < high ? low : high);
    *last = (uint32_t)high;
}

// Adds, for each output along a line, the inputs that its taps reach. `step`: between neighbours.
KERNEL static void add_taps(const struct conv *c, const int32_t *in, int32_t *out, size_t step)
{
    const struct graph_window *w = &c->window;
    for (uint32_t o = 0; o < c->ow; o++)
        out[o * step] = 0;
    for (uint32_t k = 0; k < w->kernel[1]; k++) {
        uint32_t first, last;
        inside(w, 1, k, c->iw, c->ow, &first, &last);
        int64_t start = (int64_t)k * w->dilation[1] - w->pad[1];
        const int32_t *from = in + (start + (int64_t)first * w->stride[1]) * (int64_t)step;
        for (uint32_t o = first; o < last; o++)
            out[o * step] += from[(size_t)(o - first) * w->stride[1] * step];
    }
}

// Down the columns: whole lines at a time.
static void add_lines(const struct conv *c, const int32_t *lines, int32_t *out)
{
    const struct graph_window *w = &c->window;
    size_t line = (size_t)c->ow * w->groups;
    memset(out, 0, line * c->oh * sizeof *out);
    for (uint32_t o = 0; o < c->oh; o++)
        for (uint32_t k = 0; k < w->kernel[0]; k++) {
            int64_t i = (int64_t)o * w->stride[0] + (int64_t)k * w->dilation[0] - w->pad[0];
            if (i < 0 || i >= c->ih)
                continue;
            const int32_t *from = lines + (size_t)i * line;
            for (size_t x = 0; x < line; x++)
                out[o * line + x] += from[x];
        }
}

void conv_window_sums(const struct conv *c, struct run *r, const int8_t *image)
{
    const struct graph_window *w = &c->window;
    size_t groups = w->groups, inputs = c->ic / groups;
    int32_t *sums = run_scratch(r, c->window_at), *pixels = run_scratch(r, c->lines_at);
    int32_t *lines = pixels + (size_t)c->ih * c->iw * groups;
    int32_t zero = c->x_zp * (int32_t)inputs;
    for (uint32_t n = 0; n < c->n; n++) {
        size_t count = (size_t)c->ih * c->iw * groups;
        sum_channels(image + n * count * inputs, count, inputs, zero, pixels);
        for (size_t y = 0; y < c->ih; y++)
            for (size_t g = 0; g < groups; g++)
                add_taps(c, pixels + y * c->iw * groups + g, lines + y * c->ow * groups + g,
                         groups);
        add_lines(c, lines, sums + (size_t)n * c->oh * c->ow * groups);
    }
}

// ---- plain kernels ----

KERNEL static int32_t dot_i16(const int16_t *a, const int16_t *b, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

KERNEL static void widen_image(const int8_t *x, int32_t zp, size_t n, int16_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int16_t)(x[i] - zp);
}

KERNEL static void multiply_add(int32_t *sums, const int8_t *x, int32_t zp, const int16_t *w,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += (x[i] - zp) * w[i];
}

#define LANES 16

typedef int8_t lanes_i8 __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int16_t lanes_i16 __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef int32_t lanes_i32 __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

// The same for n pixels whose inputs are `step` apart. Their rows are short, so each vector of
// channels is spelled out rather than left to the compiler's loops.
KERNEL static void multiply_add_pixels(int32_t *sums, const int8_t *x, size_t step, int32_t zp,
                                       const int16_t *w, size_t channels, size_t n)
{
    for (size_t i = 0; i < n; i++, sums += channels, x += step) {
        size_t c = 0;
        for (; c + LANES <= channels; c += LANES) {
            lanes_i32 in = __builtin_convertvector(*(const lanes_i8 *)(x + c), lanes_i32) - zp;
            lanes_i32 by = __builtin_convertvector(*(const lanes_i16 *)(w + c), lanes_i32);
            *(lanes_i32 *)(sums + c) += in * by;
        }
        for (; c < channels; c++)
            sums[c] += (x[c] - zp) * w[c];
    }
}

// The output pixels of one line, each tap that lies inside the image.
struct line {
    size_t n, y; // image and output line
    int32_t *sums;
};

// The input pixel of a tap; -1: outside.
static int64_t input_pixel(const struct conv *c, const struct line *l, uint32_t x, size_t tap)
{
    const struct graph_window *w = &c->window;
    size_t ky = tap / w->kernel[1], kx = tap % w->kernel[1];
    int64_t iy = (int64_t)(l->y * w->stride[0] + ky * w->dilation[0]) - w->pad[0];
    int64_t ix = (int64_t)(x * w->stride[1] + kx * w->dilation[1]) - w->pad[1];
    if (iy < 0 || iy >= c->ih || ix < 0 || ix >= c->iw)
        return -1;
    return ((int64_t)l->n * c->ih + iy) * c->iw + ix;
}

// With stride 1 a tap's inputs follow each other all along the line, and so do its weights once
// they are repeated for each pixel: one long row instead of one for each pixel.
static void depthwise_tap(const struct conv *c, const int8_t *image, const struct line *l,
                          size_t tap)
{
    const struct graph_window *w = &c->window;
    uint32_t kx = (uint32_t)(tap % w->kernel[1]), first, last;
    inside(w, 1, kx, c->iw, c->ow, &first, &last);
    if (first == last)
        return;
    size_t repeated = c->repeat ? c->ow : 1, channels = c->oc;
    const int16_t *weights = c->weights + tap * channels * repeated;
    const int8_t *from = image + input_pixel(c, l, first, tap) * (int64_t)channels;
    int32_t *sums = l->sums + first * channels;
    if (c->repeat) {
        multiply_add(sums, from, c->x_zp, weights, (last - first) * channels);
        return;
    }
    multiply_add_pixels(sums, from, w->stride[1] * channels, c->x_zp, weights, channels,
                        last - first);
}

static void depthwise_line(const struct conv *c, const int8_t *image, const struct line *l)
{
    const struct graph_window *w = &c->window;
    memset(l->sums, 0, (size_t)c->ow * c->oc * sizeof *l->sums);
    for (size_t ky = 0; ky < w->kernel[0]; ky++) {
        int64_t iy = (int64_t)(l->y * w->stride[0] + ky * w->dilation[0]) - w->pad[0];
        for (size_t kx = 0; kx < w->kernel[1] && iy >= 0 && iy < c->ih; kx++)
            depthwise_tap(c, image, l, ky * w->kernel[1] + kx);
    }
}

static void plain_line(const struct conv *c, const int16_t *image, const struct line *l)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups, outputs = c->oc / c->window.groups;
    memset(l->sums, 0, (size_t)c->ow * c->oc * sizeof *l->sums);
    for (uint32_t x = 0; x < c->ow; x++)
        for (size_t tap = 0; tap < taps; tap++) {
            int64_t pixel = input_pixel(c, l, x, tap);
            if (pixel < 0)
                continue;
            const int16_t *from = image + pixel * c->ic;
            for (size_t o = 0; o < c->oc; o++)
                l->sums[(size_t)x * c->oc + o] += dot_i16(
                    from + o / outputs * inputs, c->weights + (o * taps + tap) * inputs, inputs);
        }
}

void conv_integer_run(const struct step *s, const struct conv *c, struct run *r,
                      const int8_t *image)
{
    int16_t *wide = run_scratch(r, c->lines_at);
    if (c->kernel == CONV_PLAIN)
        widen_image(image, c->x_zp, (size_t)c->n * c->ih * c->iw * c->ic, wide);
    struct line l = {.sums = run_scratch(r, c->sums_at)};
    for (l.n = 0; l.n < c->n; l.n++)
        for (l.y = 0; l.y < c->oh; l.y++) {
            if (c->kernel == CONV_PLAIN)
                plain_line(c, wide, &l);
            else
                depthwise_line(c, image, &l);
            conv_finish(s, c, r, l.sums, (l.n * c->oh + l.y) * c->ow, c->ow);
        }
}
