// The integer convolution that runs on any CPU, where none of the others fits.
//
//   sum[pixel][o] = Σ over taps inside the image: dot(x[pixel under the tap], w[o][tap])
//
// x: the whole image, less its zero point, as int16, NHWC; w: [o][ky][kx][i of the group], plus its
// zero point, as int16. Taps outside the image are skipped: they would add 0. Sums are exact, and
// wrap at 32 bits. It is not made to be fast; only the dot products over the input channels are
// vectors.
//
// Tests: test_sim_conv_SSE41.
#include <string.h>

#include "npu/sim/conv/conv.h"

int conv_plain_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e)
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

KERNEL(int32_t, plain_dot, (const int16_t *a, const int16_t *b, size_t n), (a, b, n))
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

KERNEL(void, plain_widen_image, (const int8_t *x, int32_t zp, size_t n, int16_t *dst),
       (x, zp, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int16_t)(x[i] - zp);
}

// A line of the output.
struct line {
    size_t n, y; // image and output line
    int32_t *sums;
};

// The index of the input pixel under a tap; -1: outside of the image.
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
