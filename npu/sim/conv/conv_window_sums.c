// Window sums: what the zero points of weights are multiplied by where a kernel does not add these
// to the weights (oneDNN).
//
//   Σ (w + nz) * (x - zp) = Σ w * (x - zp)  +  nz * window sum        window sum = Σ (x - zp)
//
// They do not depend on the output channel: one for each output pixel and group. The window is
// separable, so each pixel is read once and added three times over:
//
//   image [y][x][channel] --- channels of a group ---> pixels [y][x][group]       int32
//                         --- down the columns -----> one line [x][group]
//                         --- along the line -------> window sums [ox][group]
//
// All sums are exact. Sums of channels, most of the work, are made of eights (int8_sum_eights),
// then of pairs of these.
//
// Tests: test_sim_conv_AVX2_VNNI.
#include <string.h>

#include "npu/sim/conv/conv.h"
#include "npu/sim/exec/window.h"
#include "npu/sim/simd/int8.h"

int conv_window_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t groups = c->window.groups, pixels = conv_pixels(c);
    int r = step_scratch(s, pixels * groups * sizeof(int32_t), &c->window_at, e);
    uint64_t lines = ((uint64_t)c->ih + 1) * c->iw * groups;
    return r < 0 ? r : step_scratch(s, lines * sizeof(int32_t), &c->lines_at, e);
}

KERNEL(void, window_sum_pairs, (const int32_t *restrict parts, size_t n, int32_t *restrict sums),
       (parts, n, sums))
{
    for (size_t i = 0; i < n; i++)
        sums[i] = parts[2 * i] + parts[2 * i + 1];
}

KERNEL(void, window_sum_parts,
       (const int32_t *restrict parts, size_t n, size_t each, int32_t zero, int32_t *restrict sums),
       (parts, n, each, zero, sums))
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

// Sums of 8 * `eights` channels each: of eights, then of pairs as long as their number is even.
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

// Sums of `inputs` channels each, less `zero`; the usual small numbers have loops of their own.
KERNEL(void, window_sum_few,
       (const int8_t *restrict x, size_t n_sums, size_t inputs, int32_t zero,
        int32_t *restrict sums),
       (x, n_sums, inputs, zero, sums))
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

// Adds, for each output along a line, the inputs under its taps; neighbours are `pitch` apart. Tap
// by tap, so that the inner loop is an addition of whole lines.
KERNEL(void, window_add_taps, (const struct conv *c, const int32_t *in, int32_t *out, size_t pitch),
       (c, in, out, pitch))
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

KERNEL(void, window_add_line, (int32_t *restrict to, const int32_t *restrict from, size_t n),
       (to, from, n))
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

// The window sums of output line `y`: down the columns, whole lines at a time, then along the line.
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
