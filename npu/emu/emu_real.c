// Real numbers: fp16 or bf16 in memory, fp32 inside.
//
// A convolution's sum is made of groups of 32 products, in the order of the weights in memory:
//
//     group = the exact sum of 32 products, rounded to fp32
//     sum   = fp32(sum + group)
//
// as it was measured on RK3588, with fp16; bf16 is taken to be the same. What was measured there
// beside it, an error in the last bits of each sixteenth channel that depends on the core, is not
// modelled. The DPU then computes in fp32, each operation rounded once. Tests: test_emulator, by
// measurements on a board.
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

#define GROUP 32 // products that are summed exactly

// ---- fp16 ----

float emu_half_float(uint16_t half)
{
    int exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    float value = exponent == 0x1f ? (mantissa ? NAN : INFINITY)
                  : exponent       ? ldexpf((float)(mantissa | 0x400), exponent - 25)
                                   : ldexpf((float)mantissa, -24);
    return half & 0x8000 ? -value : value;
}

uint16_t emu_float_half(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    if (isnan(size))
        return 0x7e00;
    int exponent = 0;
    frexpf(size, &exponent);
    if (size == 0)
        return sign;
    // What one step of the result is worth; rintf() rounds ties to even.
    int step = exponent < -13 ? -24 : exponent - 11;
    float steps = isinf(size) ? INFINITY : rintf(ldexpf(size, -step));
    if (ldexpf(steps, step) > 65504)
        return sign | 0x7c00;
    uint32_t n = (uint32_t)steps;
    // A carry out of the mantissa goes into the exponent, which is what it should do.
    return sign | (uint16_t)(step == -24 ? n : n + (uint32_t)(step + 24) * 0x400);
}

float emu_bf16_float(uint16_t bf16)
{
    return bits_float((uint32_t)bf16 << 16);
}

// To the nearest, ties to even; no number that is not one.
static uint16_t float_bf16(float value)
{
    uint32_t bits = float_bits(value);
    return isnan(value) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float two_bytes_float(bool bf16, const uint8_t *from)
{
    uint16_t value = read_le16(from);
    return bf16 ? emu_bf16_float(value) : emu_half_float(value);
}

// To the nearest whole number of 8 bits, ties to even.
static int8_t float_byte(float value)
{
    float rounded = rintf(value);
    return (int8_t)(!(rounded > -128) ? -128 : rounded < 127 ? rounded : 127);
}

static size_t count_elements(const uint32_t shape[3])
{
    return (size_t)shape[0] * shape[1] * shape[2];
}

int emu_cube_read_real(const struct emu_memory *m, const struct emu_cube *cube,
                       const uint32_t shape[3], float *dst, struct error *e)
{
    size_t n = count_elements(shape), bytes = cube->bytes ? cube->bytes : 1;
    uint8_t *raw = malloc(n * bytes);
    if (!raw)
        return error_no_memory(e, "a cube", n * bytes);
    int r = emu_cube_read(m, cube, shape, raw, e);
    for (size_t i = 0; r == 0 && i < n; i++)
        dst[i] = bytes == 1   ? (float)(int8_t)raw[i]
                 : bytes == 2 ? two_bytes_float(cube->bf16, raw + 2 * i)
                              : bits_float(read_le32(raw + 4 * i));
    free(raw);
    return r;
}

static int write_real(const struct emu_memory *m, const struct emu_dpu *d, const uint32_t shape[3],
                      const float *src, struct error *e)
{
    const struct emu_cube *cube = &d->target.cube;
    size_t n = count_elements(shape), there = count_elements(d->shape);
    uint8_t *raw = malloc(n * cube->bytes);
    if (!raw)
        return error_no_memory(e, "a cube", n * cube->bytes);
    n = n < there ? n : there;
    for (size_t i = 0; i < n; i++)
        if (cube->bytes == 1)
            raw[i] = (uint8_t)float_byte(src[i]);
        else if (cube->bytes == 2)
            write_le16(raw + 2 * i, cube->bf16 ? float_bf16(src[i]) : emu_float_half(src[i]));
        else
            write_le32(raw + 4 * i, float_bits(src[i]));
    emu_fill_channels(raw, shape, cube->bytes, d->real_channels, d->behind);
    int r = emu_write(m, &d->target, shape, raw, e);
    free(raw);
    return r;
}

// ---- convolutions ----

struct sources {
    const struct emu_conv *c;
    float *x;          // [channels][height][width] of the tile
    float *w;          // as in memory: blocks of kernels, of channels: [kh][kw][kernel][channel]
    uint32_t channels; // of the weights
};

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// One input; what is not there is the pad value, 0.
static double input_at(const struct sources *s, uint32_t k, int64_t y, int64_t x)
{
    const struct emu_conv *c = s->c;
    y -= c->pad_top;
    x -= c->pad_left;
    if (k >= c->present || k >= c->channels || y < 0 || x < 0 || y >= c->size[0] || x >= c->size[1])
        return 0;
    return s->x[((size_t)k * c->size[0] + (size_t)y) * c->size[1] + (size_t)x];
}

// Adds a group: its products fit a double each; their sum, kept as two doubles, is exact but for
// what is 2^-50 of the largest, which no rounding to 24 bits sees but in a tie. What is infinite or
// no number has no second double.
struct group {
    double high, low;
    uint32_t n;
};

static float group_sum(const struct group *g)
{
    return (float)(isfinite(g->high) ? g->high + g->low : g->high);
}

static void add_product(struct group *g, double a, double b, float *sum)
{
    double p = a * b, t = g->high + p, part = t - g->high;
    g->low += (g->high - (t - part)) + (p - part);
    g->high = t;
    if (++g->n == GROUP) {
        *sum += group_sum(g);
        *g = (struct group){0};
    }
}

static float sum_kernel(const struct sources *s, uint32_t k, uint32_t oy, uint32_t ox)
{
    const struct emu_conv *c = s->c;
    uint32_t block = k / c->kernel_block * c->kernel_block, taps = c->kernel[0] * c->kernel[1];
    uint32_t nk = smaller_of(c->kernel_block, c->kernels - block);
    const float *w = s->w + (size_t)block * taps * s->channels;
    float sum = 0;
    for (uint32_t i = 0; i < s->channels; i += c->channel_block) {
        uint32_t nc = smaller_of(c->channel_block, s->channels - i);
        for (uint32_t t = 0; t < taps; t++) {
            struct group g = {0};
            const float *row = w + ((size_t)t * nk + k - block) * nc;
            int64_t y = (int64_t)oy * c->stride[0] + t / c->kernel[1] * c->dilation[0];
            int64_t x = (int64_t)ox * c->stride[1] + t % c->kernel[1] * c->dilation[1];
            for (uint32_t j = 0; j < nc; j++)
                add_product(&g, input_at(s, i + j, y, x), row[j], &sum);
            if (g.n)
                sum += group_sum(&g);
        }
        w += (size_t)nk * nc * taps;
    }
    return sum;
}

// The taps of a depthwise kernel are summed as they come.
static float sum_channel(const struct sources *s, uint32_t k, uint32_t oy, uint32_t ox)
{
    const struct emu_conv *c = s->c;
    uint32_t block = k / c->depthwise_block * c->depthwise_block;
    uint32_t taps = c->kernel[0] * c->kernel[1],
             n = smaller_of(c->depthwise_block, s->channels - block);
    const float *w = s->w + (size_t)block * taps + k - block;
    struct group g = {0};
    float sum = 0;
    for (uint32_t t = 0; t < taps; t++, w += n) {
        int64_t y = (int64_t)oy * c->stride[0] + t / c->kernel[1] * c->dilation[0];
        int64_t x = (int64_t)ox * c->stride[1] + t % c->kernel[1] * c->dilation[1];
        add_product(&g, input_at(s, k, y, x), *w, &sum);
    }
    return g.n ? sum + group_sum(&g) : sum;
}

static int read_weights(const struct sources *s, const struct emu_memory *m, size_t n,
                        struct error *e)
{
    const uint8_t *from = emu_memory_at(m, s->c->weights, n * 2, e);
    if (!from)
        return error_prefix(e, "weights");
    for (size_t i = 0; i < n; i++)
        s->w[i] = two_bytes_float(s->c->feature.bf16, from + 2 * i);
    return 0;
}

static void sum_all(const struct sources *s, struct emu_sums *ret)
{
    const struct emu_conv *c = s->c;
    uint32_t n = smaller_of(c->depthwise ? s->channels : c->kernels, ret->shape[0]);
    float *to = ret->real;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t y = 0; y < ret->shape[1]; y++)
            for (uint32_t x = 0; x < ret->shape[2]; x++)
                *to++ = c->depthwise ? sum_channel(s, k, y, x) : sum_kernel(s, k, y, x);
}

int emu_conv_run_real(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                      struct error *e)
{
    uint32_t taps = c->kernel[0] * c->kernel[1];
    struct sources s = {.c = c};
    if (!taps || !c->size[0] || !c->size[1] || c->size[0] > 65536 || c->pad_value)
        return error_set(e, STATUS_PARAM_INVALID,
                         "an fp16 convolution of %u x %u by %u x %u, "
                         "padded with %d",
                         c->size[0], c->size[1], c->kernel[0], c->kernel[1], c->pad_value);
    if (c->spread[0] > 1 || c->spread[1] > 1 || c->clip || c->weight_zero)
        return error_set(e, STATUS_PARAM_INVALID,
                         "an fp16 convolution with pixels %u x %u apart, sums that lose %u bits, "
                         "and weights from %d on",
                         c->spread[0], c->spread[1], c->clip, c->weight_zero);
    s.channels = (c->depthwise ? c->weight_bytes : c->bytes_per_kernel) / 2 / taps;
    size_t n = (size_t)s.channels * taps * (c->depthwise ? 1 : c->kernels);
    if (!n || n > 1u << 28)
        return error_set(e, STATUS_PARAM_INVALID, "an fp16 convolution with %zu weights", n);
    *ret = (struct emu_sums){.shape = {c->out[0], c->out[1], c->out[2]}};
    uint32_t tile[3] = {smaller_of(c->present, c->channels), c->size[0], c->size[1]};
    s.x = malloc(count_elements(tile) * sizeof *s.x);
    s.w = malloc(n * sizeof *s.w);
    ret->real = calloc(count_elements(c->out), sizeof *ret->real);
    int r = s.x && s.w && ret->real ? 0 : error_no_memory(e, "a convolution", 0);
    if (r == 0)
        r = emu_cube_read_real(m, &c->feature, tile, s.x, e);
    if (r == 0)
        r = read_weights(&s, m, n, e);
    if (r == 0)
        sum_all(&s, ret);
    free(s.x);
    free(s.w);
    return r;
}

// ---- DPU ----

static float of_channel(const struct emu_operand *o, uint32_t c)
{
    return bits_float((uint32_t)(o->kind == EMU_EACH ? o->each[c] : o->all));
}

// That a lower bound takes the place of what is no number is not measured: the software NPU's rule.
static float within_floats(float v, int32_t low, int32_t high)
{
    float least_value = bits_float((uint32_t)low), most_value = bits_float((uint32_t)high);
    bool none = isnan(v) && least_value > -INFINITY;
    return v < least_value || none ? least_value : v > most_value ? most_value : v;
}

static float multiply_real(const struct emu_multiply *m, uint32_t c, float v)
{
    if (m->add.kind && !m->adds_last)
        v += of_channel(&m->add, c);
    if (m->factor.kind && (!m->prelu || v < 0))
        v *= of_channel(&m->factor, c);
    if (m->add.kind && m->adds_last)
        v += of_channel(&m->add, c);
    return within_floats(v, m->low, m->high);
}

static float look_up(const struct emu_dpu *d, float v)
{
    const struct emu_lut_side *s = &d->lut[!signbit(v)];
    float bounded = v < -2e9F ? -2e9F : v > 2e9F ? 2e9F : v;
    int64_t y = emu_lut_at(s, (int64_t)bounded, signbit(v));
    return ldexpf((float)(y + d->offset), -(int)d->minus_exp) * (float)d->scale;
}

// The largest of each d->maxima channels of a pixel, one behind the other in the first ones' place.
static void keep_maxima(const struct emu_dpu *d, float *v)
{
    size_t plane = (size_t)d->shape[1] * d->shape[2];
    uint32_t counted = d->counted ? d->counted : d->maxima;
    for (size_t i = 0; i < d->shape[0] / d->maxima * plane; i++) {
        const float *from = v + i / plane * d->maxima * plane + i % plane;
        float largest = from[0];
        for (uint32_t c = 1; c < counted; c++)
            largest = from[c * plane] > largest ? from[c * plane] : largest;
        v[i] = largest;
    }
}

static float second_real(const struct emu_dpu *d, float v, size_t at, uint32_t c)
{
    const struct emu_second *s = &d->ew;
    if (s->op == EMU_EW_NONE)
        return v;
    float e = s->real[s->one_per_channel ? c : at];
    switch (s->op) {
    case EMU_EW_ADD:
        return v + e;
    case EMU_EW_SUB:
        return v - e;
    case EMU_EW_MUL:
        return v * e;
    case EMU_EW_DIV:
        return v / e;
    case EMU_EW_MAX:
        return v > e ? v : e;
    default:
        return v < e ? v : e;
    }
}

static float convert_real(const struct emu_dpu *d, uint32_t c, float v, size_t at)
{
    v = multiply_real(&d->bs, c, v);
    v = multiply_real(&d->bn, c, v);
    if (d->ew.op == EMU_EW_LUT)
        return look_up(d, v);
    v = within_floats(second_real(d, v, at, c), d->ew_low, d->ew_high);
    return d->minus_exp ? ldexpf(v, -(int)d->minus_exp) : v;
}

int emu_dpu_run_real(const struct emu_dpu *d, const struct emu_memory *m,
                     const struct emu_sums *sums, struct error *e)
{
    size_t plane = (size_t)d->shape[1] * d->shape[2];
    if (d->from_core &&
        (!sums->real || sums->shape[1] != d->shape[1] || sums->shape[2] != d->shape[2]))
        return error_set(e, STATUS_PARAM_INVALID, "a core of %u x %u for a DPU of %u x %u",
                         sums->shape[1], sums->shape[2], d->shape[1], d->shape[2]);
    float *v = calloc(count_elements(d->shape), sizeof *v);
    if (!v)
        return error_no_memory(e, "a cube", count_elements(d->shape) * sizeof *v);
    int r = d->from_core || d->main ? 0 : emu_cube_read_real(m, &d->source, d->shape, v, e);
    for (size_t i = 0; d->main && i < count_elements(d->shape); i++)
        v[i] = d->main[i];
    for (size_t i = 0; d->from_core && i < plane * smaller_of(d->shape[0], sums->shape[0]); i++)
        v[i] = sums->real[i];
    for (size_t i = 0; i < count_elements(d->shape); i++)
        v[i] = convert_real(d, (uint32_t)(i / plane), v[i], i);
    if (d->maxima)
        keep_maxima(d, v);
    uint32_t written[3];
    emu_written_shape(d, written);
    if (r == 0)
        r = write_real(m, d, written, v, e);
    free(v);
    return r;
}
