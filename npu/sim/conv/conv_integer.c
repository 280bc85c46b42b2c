// Convolutions of integers without oneDNN, and the zero points of weights.
#include <stdlib.h>

#include "npu/sim/conv/conv.h"
#include "npu/sim/exec/window.h"
#include "npu/sim/simd/int8.h"

// ---- preparation ----

int32_t conv_weight_zp(const struct graph_conv_quant *q, size_t taps, uint32_t o, size_t tap)
{
    return q->nz_in_taps ? q->nz[o * taps + tap] : q->nz[o];
}

// Weights with their zero points added, in the order of the plain kernel.
static int plain_widen_weights(struct step *s, struct conv *c, const int8_t *w, struct error *e)
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
                int32_t value = w[(o * inputs + i) * taps + tap] + conv_weight_zp(q, taps, o, tap);
                c->weights[(o * taps + tap) * inputs + i] = (int16_t)value;
            }
    return 0;
}

#define WEIGHTS_CHUNK 4096 // weights whose sum with zero points of 16 bits fits 32 bits

KERNEL static void weights_sum_chunk(const int8_t *restrict w, size_t n, int32_t nz,
                                     int32_t *ret_sum, int32_t *ret_reach)
{
    int32_t sum = 0, reach = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t v = w[i] + nz;
        sum += v;
        reach += v < 0 ? -v : v;
    }
    *ret_sum = sum;
    *ret_reach = reach;
}

static int64_t weights_sum_alike(const int8_t *w, size_t n, int32_t nz, int64_t *reach)
{
    int64_t sum = 0;
    for (size_t done = 0; done < n; done += WEIGHTS_CHUNK) {
        int32_t part, part_reach;
        weights_sum_chunk(w + done, n - done < WEIGHTS_CHUNK ? n - done : WEIGHTS_CHUNK, nz, &part,
                          &part_reach);
        sum += part;
        *reach += part_reach;
    }
    return sum;
}

// Σ (w + nz) of one output channel, and the same without signs.
static int64_t weights_sum(const struct graph_conv_quant *q, const int8_t *w, size_t inputs,
                           size_t taps, uint32_t o, int64_t *ret_reach)
{
    int64_t sum = 0;
    *ret_reach = 0;
    if (!q->nz_in_taps)
        return weights_sum_alike(w, inputs * taps, q->nz[o], ret_reach);
    for (size_t i = 0; i < inputs * taps; i++)
        sum += weights_sum_alike(w + i, 1, conv_weight_zp(q, taps, o, i % taps), ret_reach);
    return sum;
}

// The bias without the term for the image's zero point: kernels subtract that themselves.
static void conv_correct_bias(const struct step *s, struct conv *c, const int8_t *w)
{
    const struct graph_conv_quant *q = s->node->quant;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups;
    int64_t most = c->x_zp < 0 ? 127 - c->x_zp : c->x_zp + 128, reach;
    for (uint32_t o = 0; o < c->oc; o++) {
        int64_t sum = weights_sum(q, w + o * inputs * taps, inputs, taps, o, &reach);
        c->bias[o] = (int32_t)(q->bias[o] + (q->bias_holds_zp ? c->x_zp * sum : 0));
        uint64_t max_sum = (uint64_t)(reach * most + llabs(c->bias[o]));
        c->max_sum = max_sum > c->max_sum ? max_sum : c->max_sum;
    }
}

int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e)
{
    const struct graph_conv_quant *q = s->node->quant;
    c->bias = step_alloc(s, c->oc + CONV_LANES, sizeof *c->bias);
    c->scale = step_alloc(s, c->oc, sizeof *c->scale);
    if (!c->bias || !c->scale || q->n != c->oc)
        return error_no_memory(e, "a bias", c->oc * sizeof *c->bias);
    if (c->x_zp < -128 || c->x_zp > 127)
        return step_refuse(s, e, "its input's zero point is %d", c->x_zp);
    for (uint32_t o = 0; o < c->oc; o++)
        c->scale[o] = (float)q->scale[o];
    conv_correct_bias(s, c, w);
    for (uint32_t o = c->oc; o < c->oc + CONV_LANES; o++)
        c->bias[o] = c->bias[o % c->oc]; // of the next pixel, where few channels share lanes
    int r = conv_requantize_prepare(s, c, e);
    if (r < 0)
        return r;
    if (c->kernel == CONV_DEPTHWISE)
        return conv_depthwise_prepare(s, c, w, e);
    if (c->kernel == CONV_VNNI)
        return conv_vnni_prepare(s, c, w, e);
    if (c->kernel == CONV_INT16)
        return conv_int16_prepare(s, c, w, e);
    if (c->kernel == CONV_PLAIN)
        return plain_widen_weights(s, c, w, e);
    if (q->nz_in_taps)
        return step_refuse(s, e, "zero points of each tap are only known of depthwise weights");
    bool any = false;
    for (uint32_t o = 0; o < c->oc; o++)
        any = any || q->nz[o];
    if (!any)
        return 0;
    c->nz = step_alloc(s, c->oc + CONV_LANES, sizeof *c->nz);
    if (!c->nz)
        return error_no_memory(e, "zero points", c->oc * sizeof *c->nz);
    for (uint32_t o = 0; o < c->oc; o++)
        c->nz[o] = q->nz[o];
    return 0;
}

// ---- window sums ----

int conv_window_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t groups = c->window.groups, pixels = conv_pixels(c);
    int r = step_scratch(s, pixels * groups * sizeof(int32_t), &c->window_at, e);
    uint64_t lines = ((uint64_t)c->ih + 1) * c->iw * groups;
    return r < 0 ? r : step_scratch(s, lines * sizeof(int32_t), &c->lines_at, e);
}

KERNEL static void window_sum_pairs(const int32_t *restrict parts, size_t n, int32_t *restrict sums)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = parts[2 * i] + parts[2 * i + 1];
}

KERNEL static void window_sum_parts(const int32_t *restrict parts, size_t n, size_t each,
                                    int32_t zero, int32_t *restrict sums)
{
    if (each == 1)
        for (size_t i = 0; i < n; i++)
            sums[i] = parts[i] - zero;
    else
        for (size_t i = 0; i < n; i++) {
            int32_t sum = -zero;
            for (size_t k = 0; k < each; k++)
                sum += parts[i * each + k];
            sums[i] = sum;
        }
}

// Sums of 8 * `eights` neighbours: of eights, then of pairs as often as that works.
static void window_sum_many(const int8_t *x, size_t n_sums, size_t eights, int32_t zero,
                            int32_t *sums)
{
    int32_t memory[2][ELEMENTS_CHUNK], *parts = memory[0], *other = memory[1];
    size_t together = ELEMENTS_CHUNK / eights;
    for (size_t done = 0; done < n_sums; done += together) {
        size_t n = n_sums - done < together ? n_sums - done : together, rest = eights;
        int8_sum_eights(x + done * eights * 8, n * eights, parts);
        for (; rest % 2 == 0; rest /= 2) {
            int32_t *sums_of_pairs = other;
            window_sum_pairs(parts, n * rest / 2, sums_of_pairs);
            other = parts;
            parts = sums_of_pairs;
        }
        window_sum_parts(parts, n, rest, zero, sums + done);
    }
}

// Sums of `inputs` neighbours each, less `zero`.
KERNEL static void window_sum_few(const int8_t *restrict x, size_t n_sums, size_t inputs,
                                  int32_t zero, int32_t *restrict sums)
{
    switch (inputs) {
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

static void window_sum_channels(const int8_t *x, size_t n_sums, size_t inputs, int32_t zero,
                                int32_t *sums)
{
    if (inputs % 8 == 0 && inputs / 8 <= ELEMENTS_CHUNK)
        window_sum_many(x, n_sums, inputs / 8, zero, sums);
    else
        window_sum_few(x, n_sums, inputs, zero, sums);
}

static inline void window_add_strided(int32_t *restrict out, size_t out_step,
                                      const int32_t *restrict in, size_t in_step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i * out_step] += in[i * in_step];
}

// Adds, for each output along a line, the inputs that its taps reach. `pitch`: between neighbours.
KERNEL static void window_add_taps(const struct conv *c, const int32_t *in, int32_t *out,
                                   size_t pitch)
{
    const struct graph_window *w = &c->window;
    for (uint32_t o = 0; o < c->ow; o++)
        out[o * pitch] = 0;
    for (uint32_t k = 0; k < w->kernel[1]; k++) {
        uint32_t first, last;
        window_outputs(w, 1, k, c->iw, c->ow, &first, &last);
        int64_t start = (int64_t)k * w->dilation[1] - w->pad[1];
        const int32_t *from = in + (start + (int64_t)first * w->stride[1]) * (int64_t)pitch;
        int32_t *to = out + first * pitch;
        size_t stride = w->stride[1] * pitch, n = last - first;
        if (pitch == 1 && stride == 1)
            window_add_strided(to, 1, from, 1, n);
        else if (pitch == 1 && stride == 2)
            window_add_strided(to, 1, from, 2, n);
        else
            window_add_strided(to, pitch, from, stride, n);
    }
}

KERNEL static void window_add_line(int32_t *restrict to, const int32_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

// One line of the output: first down the columns, whole lines at a time, then along the line.
static void window_sum_line(const struct conv *c, const int32_t *pixels, uint32_t y, int32_t *line,
                            int32_t *sums)
{
    const struct graph_window *w = &c->window;
    size_t groups = w->groups, n = (size_t)c->iw * groups;
    memset(line, 0, n * sizeof *line);
    for (uint32_t k = 0; k < w->kernel[0]; k++) {
        int64_t i = (int64_t)y * w->stride[0] + (int64_t)k * w->dilation[0] - w->pad[0];
        if (i >= 0 && i < c->ih)
            window_add_line(line, pixels + (size_t)i * n, n);
    }
    for (size_t g = 0; g < groups; g++)
        window_add_taps(c, line + g, sums + g, groups);
}

void conv_window_sums(const struct conv *c, struct run *r, const int8_t *image)
{
    const struct graph_window *w = &c->window;
    size_t groups = w->groups, inputs = c->ic / groups, count = (size_t)c->ih * c->iw * groups;
    int32_t *sums = run_scratch(r, c->window_at), *pixels = run_scratch(r, c->lines_at);
    int32_t zero = c->x_zp * (int32_t)inputs;
    if (w->kernel[0] * w->kernel[1] * w->stride[0] * w->stride[1] == 1 && c->ih == c->oh &&
        c->iw == c->ow) {
        window_sum_channels(image, conv_pixels(c) * groups, inputs, zero, sums);
        return;
    }
    for (uint32_t n = 0; n < c->n; n++, image += count * inputs) {
        window_sum_channels(image, count, inputs, zero, pixels);
        for (uint32_t y = 0; y < c->oh; y++, sums += c->ow * groups)
            window_sum_line(c, pixels, y, pixels + count, sums);
    }
}

// ---- the plain kernel ----

KERNEL static int32_t plain_dot(const int16_t *a, const int16_t *b, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

KERNEL static void plain_widen_image(const int8_t *x, int32_t zp, size_t n, int16_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int16_t)(x[i] - zp);
}

// The output pixels of one line, each tap that lies inside the image.
struct line {
    size_t n, y; // image and output line
    int32_t *sums;
};

// The input pixel of a tap; -1: outside.
static int64_t plain_input_pixel(const struct conv *c, const struct line *l, uint32_t x, size_t tap)
{
    const struct graph_window *w = &c->window;
    size_t ky = tap / w->kernel[1], kx = tap % w->kernel[1];
    int64_t iy = (int64_t)(l->y * w->stride[0] + ky * w->dilation[0]) - w->pad[0];
    int64_t ix = (int64_t)(x * w->stride[1] + kx * w->dilation[1]) - w->pad[1];
    if (iy < 0 || iy >= c->ih || ix < 0 || ix >= c->iw)
        return -1;
    return ((int64_t)l->n * c->ih + iy) * c->iw + ix;
}

static void plain_sum_line(const struct conv *c, const int16_t *image, const struct line *l)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups, outputs = c->oc / c->window.groups;
    memset(l->sums, 0, (size_t)c->ow * c->oc * sizeof *l->sums);
    for (uint32_t x = 0; x < c->ow; x++)
        for (size_t tap = 0; tap < taps; tap++) {
            int64_t pixel = plain_input_pixel(c, l, x, tap);
            if (pixel < 0)
                continue;
            const int16_t *from = image + pixel * c->ic;
            for (size_t o = 0; o < c->oc; o++)
                l->sums[(size_t)x * c->oc + o] += plain_dot(
                    from + o / outputs * inputs, c->weights + (o * taps + tap) * inputs, inputs);
        }
}

void conv_plain_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image)
{
    int16_t *wide = run_scratch(r, c->lines_at);
    plain_widen_image(image, c->x_zp, (size_t)c->n * c->ih * c->iw * c->ic, wide);
    struct line l = {.sums = run_scratch(r, c->sums_at)};
    for (l.n = 0; l.n < c->n; l.n++)
        for (l.y = 0; l.y < c->oh; l.y++) {
            plain_sum_line(c, wide, &l);
            conv_epilogue(s, c, r, l.sums, (l.n * c->oh + l.y) * c->ow, c->ow);
        }
}
