// CNA and CORE: sums of products.
//
//     sum[o, y, x]    = Σ x[c, y*sy + ky*dy - top, x*sx + kx*dx - left] * w[o, c, ky, kx]
//     window[y, x]    = Σ of the same x                (of the channel alone when depthwise)
//
// in integers as they are stored: no zero points are subtracted. Around the tile, and in channels
// that are worked on but not there, stands the pad value. What is held here, so that the innermost
// loop runs over memory:
//
//     features   [height + pads][width + pads][channels]   int16
//     weights    [kernel][ky][kx][channel]                 int16
//
// Plain loops: this is what other kernels are compared with.
// Tests: test_emulator, by measurements on boards and by files' nodes.
#include <stdlib.h>
#include <string.h>

#include "base/each_cpu.h"
#include "npu/emu/emu_unit.h"

#define MAX_TAPS (1u << 17) // of one sum: 2^17 products of bytes fit an int32

struct image {
    int16_t *x; // [rows][columns][channels]
    uint32_t rows, columns, channels;
};

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// ---- features ----

static uint32_t spread_of(const struct emu_conv *c, int i)
{
    return c->spread[i] ? c->spread[i] : 1;
}

// Rows and columns of the tile with its pads, or what the windows reach.
static void image_size(const struct emu_conv *c, uint32_t ret[2])
{
    uint32_t pads[2] = {c->pad_top, c->pad_left};
    for (int i = 0; i < 2; i++)
        ret[i] =
            larger_of((c->kernel[i] - 1) * c->dilation[i] + (c->out[i + 1] - 1) * c->stride[i] + 1,
                      pads[i] + (c->size[i] - 1) * spread_of(c, i) + 1);
}

static int image_new(const struct emu_conv *c, uint32_t channels, struct image *ret,
                     struct error *e)
{
    uint32_t size[2];
    image_size(c, size);
    *ret = (struct image){.rows = size[0], .columns = size[1], .channels = channels};
    size_t n = (size_t)ret->rows * ret->columns * channels;
    ret->x = malloc(n * sizeof *ret->x);
    if (!ret->x)
        return error_no_memory(e, "features", n * sizeof *ret->x);
    for (size_t i = 0; i < n; i++)
        ret->x[i] = c->pad_value;
    return 0;
}

static int16_t convert(const struct emu_conv *c, uint32_t channel, int8_t x)
{
    const struct emu_lane *lane = &c->lanes[channel % EMU_LANES];
    if (!c->converts)
        return x;
    int64_t y = (int64_t)(uint8_t)x * lane->factor;
    if (lane->order == EMU_OFFSET_FIRST)
        y = emu_round_even(((int64_t)x + lane->offset) * lane->factor, lane->shift);
    else if (lane->order == EMU_OFFSET_SECOND)
        y = emu_round_even(y + lane->offset, lane->shift);
    else
        y = emu_round_even(y, lane->shift) + lane->offset;
    return (int16_t)(y < INT8_MIN ? INT8_MIN : y > INT8_MAX ? INT8_MAX : y);
}

// From the first pixel of a transposed convolution's image to its last one, in n channels.
static void clear_between(const struct emu_conv *c, struct image *image, uint32_t n)
{
    uint32_t rows = (c->size[0] - 1) * spread_of(c, 0) + 1;
    uint32_t columns = (c->size[1] - 1) * spread_of(c, 1) + 1;
    for (uint32_t y = 0; y < rows; y++) {
        size_t at = (size_t)(y + c->pad_top) * image->columns + c->pad_left;
        for (uint32_t x = 0; x < columns; x++)
            memset(image->x + (at + x) * image->channels, 0, n * sizeof *image->x);
    }
}

static int read_features(const struct emu_conv *c, const struct emu_memory *m, struct image *image,
                         struct error *e)
{
    uint32_t shape[3] = {smaller_of(c->present, c->channels), c->size[0], c->size[1]};
    size_t plane = (size_t)shape[1] * shape[2];
    int8_t *known = malloc(shape[0] * plane);
    if (!known)
        return error_no_memory(e, "features", shape[0] * plane);
    int r = emu_cube_read(m, &c->feature, shape, known, e);
    uint32_t n = smaller_of(shape[0], image->channels);
    if (c->zeros_between)
        clear_between(c, image, n);
    for (uint32_t k = 0; r == 0 && k < n; k++)
        for (uint32_t y = 0; y < shape[1]; y++) {
            size_t at = (size_t)(y * spread_of(c, 0) + c->pad_top) * image->columns + c->pad_left;
            const int8_t *from = known + k * plane + (size_t)y * shape[2];
            for (uint32_t x = 0; x < shape[2]; x++)
                image->x[(at + x * spread_of(c, 1)) * image->channels + k] = convert(c, k, from[x]);
        }
    free(known);
    return r < 0 ? error_prefix(e, "features") : 0;
}

// ---- weights ----

// Blocks of kernels, in them blocks of channels: [kh][kw][kernel][channel].
static int read_blocks(const struct emu_conv *c, const struct emu_memory *m, uint32_t channels,
                       int16_t *w, struct error *e)
{
    uint32_t taps = c->kernel[0] * c->kernel[1];
    uint64_t at = c->weights;
    for (uint32_t k = 0; k < c->kernels; k += c->kernel_block)
        for (uint32_t i = 0; i < channels; i += c->channel_block) {
            uint32_t nk = smaller_of(c->kernel_block, c->kernels - k);
            uint32_t nc = smaller_of(c->channel_block, channels - i);
            const int8_t *from = emu_memory_at(m, at, (size_t)nk * nc * taps, e);
            if (!from)
                return error_prefix(e, "weights");
            for (uint32_t t = 0; t < taps; t++)
                for (uint32_t j = 0; j < nk; j++)
                    for (uint32_t l = 0; l < nc; l++)
                        w[((size_t)(k + j) * taps + t) * channels + i + l] =
                            (int16_t)(*from++ - c->weight_zero);
            at += (uint64_t)nk * nc * taps;
        }
    return 0;
}

// Packed pixels of RK3576: each kernel's row is padded to 16 bytes, four of them for each pixel.
static int read_rows(const struct emu_conv *c, const struct emu_memory *m, int16_t *w,
                     struct error *e)
{
    uint32_t row = (4 * c->kernel[1] + 15) / 16 * 16, taps = c->kernel[0] * c->kernel[1];
    uint64_t at = c->weights;
    for (uint32_t k = 0; k < c->kernels; k += c->kernel_block) {
        uint32_t n = smaller_of(c->kernel_block, c->kernels - k);
        const int8_t *from = emu_memory_at(m, at, (size_t)n * row * c->kernel[0], e);
        if (!from)
            return error_prefix(e, "weights");
        for (uint32_t y = 0; y < c->kernel[0]; y++)
            for (uint32_t j = 0; j < n; j++, from += row)
                for (uint32_t i = 0; i < 4 * c->kernel[1]; i++)
                    w[((size_t)(k + j) * taps + y * c->kernel[1]) * 4 + i] =
                        (int16_t)(from[i] - c->weight_zero);
        at += (uint64_t)n * row * c->kernel[0];
    }
    return 0;
}

// Blocks of channels: [kh][kw][channel]; or pairs of weights, then what is added to each of them,
// where -128 stands for 128. w: [tap][channel].
static int read_depthwise(const struct emu_conv *c, const struct emu_memory *m, uint32_t channels,
                          int16_t *w, struct error *e)
{
    uint32_t taps = c->kernel[0] * c->kernel[1], each = c->paired ? 2 : 1;
    uint64_t at = c->weights;
    for (uint32_t k = 0; k < channels; k += c->depthwise_block) {
        uint32_t n = smaller_of(c->depthwise_block, channels - k);
        const int8_t *from = emu_memory_at(m, at, (size_t)n * taps * each, e);
        if (!from)
            return error_prefix(e, "weights");
        for (uint32_t t = 0; t < taps; t++)
            for (uint32_t i = 0; i < n; i++) {
                const int8_t *tap = from + (size_t)t * n * each;
                uint32_t pair = c->alternating ? 2 * i : i / 2 * 4 + i % 2;
                int value = tap[c->paired ? pair : i] - c->weight_zero;
                int added = c->paired ? tap[pair + (c->alternating ? 1 : 2)] : 0;
                w[(size_t)t * channels + k + i] = (int16_t)(value + (added == -128 ? 128 : added));
            }
        at += (uint64_t)n * taps * each;
    }
    return 0;
}

// ---- sums ----

static int32_t dot_product(const int16_t *restrict a, const int16_t *restrict b, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static int32_t one_sum(const struct emu_conv *c, const struct image *image, const int16_t *w,
                       uint32_t y, uint32_t x)
{
    int32_t sum = 0;
    // Taps side by side are one piece of a row.
    uint32_t step = c->dilation[1] == 1 ? c->kernel[1] : 1;
    size_t piece = (size_t)step * image->channels;
    for (uint32_t ky = 0; ky < c->kernel[0]; ky++)
        for (uint32_t kx = 0; kx < c->kernel[1]; kx += step, w += piece) {
            size_t row = (size_t)y * c->stride[0] + ky * c->dilation[0];
            size_t column = (size_t)x * c->stride[1] + kx * c->dilation[1];
            sum +=
                dot_product(image->x + (row * image->columns + column) * image->channels, w, piece);
        }
    return sum;
}

// All kernels, then a kernel of ones for the window's sums.
FOR_EACH_CPU static void sum_kernels(const struct emu_conv *c, const struct image *image,
                                     const int16_t *w, const int16_t *ones, struct emu_sums *s)
{
    size_t size = (size_t)c->kernel[0] * c->kernel[1] * image->channels;
    uint32_t n = smaller_of(c->kernels, s->shape[0]);
    for (uint32_t y = 0; y < s->shape[1]; y++)
        for (uint32_t x = 0; x < s->shape[2]; x++) {
            size_t at = (size_t)y * s->shape[2] + x, plane = (size_t)s->shape[1] * s->shape[2];
            for (uint32_t k = 0; k < n; k++)
                s->sums[k * plane + at] = one_sum(c, image, w + k * size, y, x);
            s->window[at] = one_sum(c, image, ones, y, x);
        }
}

// w: [tap][channel], of `channels`.
static void sum_channels(const struct emu_conv *c, const struct image *image, const int16_t *w,
                         uint32_t channels, struct emu_sums *s)
{
    size_t plane = (size_t)s->shape[1] * s->shape[2];
    uint32_t n = smaller_of(smaller_of(channels, image->channels), s->shape[0]);
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < plane; i++) {
            size_t y = i / s->shape[2] * c->stride[0], x = i % s->shape[2] * c->stride[1];
            int32_t sum = 0, window = 0;
            for (uint32_t t = 0; t < c->kernel[0] * c->kernel[1]; t++) {
                size_t row = y + (size_t)(t / c->kernel[1]) * c->dilation[0];
                size_t column = x + (size_t)(t % c->kernel[1]) * c->dilation[1];
                int32_t v = image->x[(row * image->columns + column) * image->channels + k];
                sum += v * w[(size_t)t * channels + k];
                window += v;
            }
            s->sums[k * plane + i] = sum;
            s->window[k * plane + i] = window;
        }
}

// ---- both ----

static int run_depthwise(const struct emu_conv *c, const struct emu_memory *m,
                         const struct image *image, struct emu_sums *s, struct error *e)
{
    uint32_t taps = c->kernel[0] * c->kernel[1];
    uint32_t channels = c->weight_bytes / taps / (c->paired ? 2 : 1);
    int16_t *w = malloc(((size_t)channels * taps + 1) * sizeof *w);
    int r = w ? read_depthwise(c, m, channels, w, e) : error_no_memory(e, "weights", 0);
    if (r == 0)
        sum_channels(c, image, w, channels, s);
    free(w);
    return r;
}

static int run_kernels(const struct emu_conv *c, const struct emu_memory *m,
                       const struct image *image, struct emu_sums *s, struct error *e)
{
    size_t one = (size_t)c->kernel[0] * c->kernel[1] * image->channels;
    int16_t *w = malloc((c->kernels + 1) * one * sizeof *w);
    if (!w)
        return error_no_memory(e, "weights", 0);
    int r = c->rows_of_16 ? read_rows(c, m, w, e) : read_blocks(c, m, image->channels, w, e);
    int16_t *ones = w + c->kernels * one;
    for (size_t i = 0; i < one; i++)
        ones[i] = 1;
    if (r == 0)
        sum_kernels(c, image, w, ones, s);
    free(w);
    return r;
}

static int check_conv_size(const struct emu_conv *c, uint32_t channels, struct error *e)
{
    uint64_t taps = (uint64_t)c->kernel[0] * c->kernel[1];
    for (int i = 0; i < 2; i++)
        if (!c->kernel[i] || !c->size[i] || c->size[i] > 65536)
            return error_set(e, STATUS_PARAM_INVALID, "a convolution of %u x %u by %u x %u",
                             c->size[0], c->size[1], c->kernel[0], c->kernel[1]);
    if (!channels || !c->kernels || taps * channels > MAX_TAPS)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a convolution with %u kernels of %u channels, %u x %u", c->kernels,
                         channels, c->kernel[0], c->kernel[1]);
    return 0;
}

static int sums_new(const struct emu_conv *c, struct emu_sums *s, struct error *e)
{
    size_t plane = (size_t)c->out[1] * c->out[2];
    *s = (struct emu_sums){.shape = {c->out[0], c->out[1], c->out[2]},
                           .window_channels = c->depthwise ? c->out[0] : 1,
                           .clip = c->clip};
    s->sums = calloc(c->out[0] * plane, sizeof *s->sums);
    s->window = calloc(s->window_channels * plane, sizeof *s->window);
    return s->sums && s->window ? 0 : error_no_memory(e, "sums", c->out[0] * plane * 4);
}

static int run_whole(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                     struct error *e)
{
    struct image image = {0};
    uint32_t taps = c->kernel[0] * c->kernel[1];
    // Kernels may have more channels than are worked on: these see the pad value.
    uint32_t channels = c->depthwise ? c->channels : c->rows_of_16 ? 4 : 0;
    if (!channels && taps)
        channels = c->bytes_per_kernel / taps;
    int r = check_conv_size(c, channels, e);
    if (r < 0)
        return r;
    r = sums_new(c, ret, e);
    if (r == 0)
        r = image_new(c, channels, &image, e);
    if (r == 0)
        r = read_features(c, m, &image, e);
    if (r == 0)
        r = c->depthwise ? run_depthwise(c, m, &image, ret, e) : run_kernels(c, m, &image, ret, e);
    free(image.x);
    if (r < 0)
        emu_sums_done(ret);
    return r;
}

// Channels [first, first + half's) of both; windows are each channel's, since halves have others.
static void put_half(const struct emu_sums *half, uint32_t first, struct emu_sums *s)
{
    size_t plane = (size_t)s->shape[1] * s->shape[2];
    memcpy(s->sums + first * plane, half->sums, half->shape[0] * plane * sizeof *s->sums);
    for (uint32_t c = 0; c < half->shape[0]; c++)
        memcpy(s->window + (first + c) * plane, half->window, plane * sizeof *s->window);
}

static int run_halves(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                      struct error *e)
{
    struct emu_conv part = *c;
    struct emu_sums half = {0};
    part.out[0] = c->out[0] / 2;
    int r = c->depthwise || c->out[0] % 2 || c->pad_bottom >= c->size[0]
                ? error_set(e, STATUS_PARAM_INVALID, "halves of %u channels and %u lines",
                            c->out[0], c->size[0])
                : sums_new(c, ret, e);
    free(ret->window);
    ret->window_channels = c->out[0];
    ret->window = calloc((size_t)c->out[0] * c->out[1] * c->out[2], sizeof *ret->window);
    if (r == 0 && !ret->window)
        r = error_no_memory(e, "sums", 0);
    for (uint32_t i = 0; i < 2 && r == 0; i++) {
        r = run_whole(&part, m, &half, e);
        if (r == 0)
            put_half(&half, i * part.out[0], ret);
        emu_sums_done(&half);
        part.feature.base += c->lower_half;
        part.size[0] -= c->pad_bottom;
        part.pad_top = 0;
    }
    return r;
}

int emu_conv_run(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                 struct error *e)
{
    return c->lower_half ? run_halves(c, m, ret, e) : run_whole(c, m, ret, e);
}

uint64_t emu_conv_work(const struct emu_conv *c)
{
    uint32_t size[2], channels = larger_of(c->channels, c->bytes_per_kernel);
    image_size(c, size);
    uint64_t taps = (uint64_t)c->kernel[0] * c->kernel[1], plane = (uint64_t)c->out[1] * c->out[2];
    uint64_t products = plane * taps * (c->depthwise ? c->out[0] : c->bytes_per_kernel / 2);
    uint64_t held = (uint64_t)size[0] * size[1] * channels;
    if (!c->depthwise && __builtin_mul_overflow(products, c->kernels, &products))
        return UINT64_MAX;
    return products > held ? products : held;
}

void emu_sums_done(struct emu_sums *s)
{
    free(s->sums);
    free(s->real);
    free(s->window);
    *s = (struct emu_sums){0};
}
