// From the sums of a convolution to its stored outputs, through real numbers.
//
//   integers: real[o] = (float)(sum + bias[o] + nz[o] * window sum) * scale[o]
//   floats:   real[o] = sum, with the bias in it already
//   then the activations and addends that are left, in order, and elements_store(): round(real /
//   y_scale
//   + zp), ties to even, saturated (simd/elements.h says which zero points move ties).
//
// The sum in brackets is 32 bits that wrap, as the chips have it. The reals are floats: a product
// near a tie may be rounded to the other side. So where outputs are int8 and all that follows can
// be done in units of the output, conv_requantize(), which is exact, is used instead. A chunk of
// ELEMENTS_CHUNK reals stays in the L1 cache:
//
//   sums:   [pixel][o], window sums: [pixel][group], both int32; reals: [pixel][o in chunk]
//
// Tests: test_sim_conv, test_sim_cases, test_sim_fp16, test_onnx_against.
#include <math.h>

#include "npu/sim/conv/conv.h"

// Sums of the channels [from, from + n) of some pixels.
struct epilogue_part {
    const int32_t *sums, *window_sums; // of the first pixel
    size_t pixels, from, n;
};

// One pixel. The innermost loops take restrict pointers, so that the compiler makes vectors without
// checking for overlap at each pixel.
static inline void epilogue_pixel_with_nz(const int32_t *restrict sums,
                                          const int32_t *restrict bias, const int32_t *restrict nz,
                                          uint32_t window, const float *restrict scale, size_t n,
                                          float *restrict dst)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)bias[i] + (uint32_t)nz[i] * window;
        dst[i] = (float)(int32_t)sum * scale[i];
    }
}

static inline void epilogue_pixel(const int32_t *restrict sums, const int32_t *restrict bias,
                                  const float *restrict scale, size_t n, float *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(int32_t)((uint32_t)sums[i] + (uint32_t)bias[i]) * scale[i];
}

KERNEL(void, epilogue_to_real_plain,
       (const struct conv *c, const struct epilogue_part *p, float *dst), (c, p, dst))
{
    size_t n = p->n, step = c->oc, pixels = p->pixels;
    const int32_t *sums = p->sums + p->from, *bias = c->bias + p->from;
    const float *scale = c->scale + p->from;
    for (size_t k = 0; k < pixels; k++)
        epilogue_pixel(sums + k * step, bias, scale, n, dst + k * n);
}

// With zero points of weights, and one group.
KERNEL(void, epilogue_to_real_with_nz,
       (const struct conv *c, const struct epilogue_part *p, float *dst), (c, p, dst))
{
    size_t n = p->n, step = c->oc, pixels = p->pixels;
    const int32_t *sums = p->sums + p->from, *windows = p->window_sums;
    const int32_t *bias = c->bias + p->from, *nz = c->nz + p->from;
    const float *scale = c->scale + p->from;
    for (size_t k = 0; k < pixels; k++)
        epilogue_pixel_with_nz(sums + k * step, bias, nz, (uint32_t)windows[k], scale, n,
                               dst + k * n);
}

// … and several groups, a part of which may be the first and the last one.
KERNEL(void, epilogue_to_real_with_group_nz,
       (const struct conv *c, const struct epilogue_part *p, float *dst), (c, p, dst))
{
    const size_t groups = c->window.groups, outputs = c->oc / groups, end = p->from + p->n;
    for (size_t k = 0; k < p->pixels; k++)
        for (size_t o = p->from, g = o / outputs, n; o < end; o += n, g++) {
            n = ((g + 1) * outputs < end ? (g + 1) * outputs : end) - o;
            epilogue_pixel_with_nz(p->sums + k * c->oc + o, c->bias + o, c->nz + o,
                                   (uint32_t)p->window_sums[k * groups + g], c->scale + o, n, dst);
            dst += n;
        }
}

static void epilogue_to_real(const struct conv *c, const struct epilogue_part *p, float *dst)
{
    if (!p->window_sums)
        epilogue_to_real_plain(c, p, dst);
    else if (c->window.groups == 1)
        epilogue_to_real_with_nz(c, p, dst);
    else
        epilogue_to_real_with_group_nz(c, p, dst);
}

KERNEL(void, epilogue_add, (float *x, const float *y, size_t n), (x, y, n))
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void epilogue_add_operand(const struct step *s, const struct run *r,
                                 const struct graph_post *post, size_t at, float *v, size_t n)
{
    float operand[ELEMENTS_CHUNK];
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    struct element_form form = element_form(t);
    const uint8_t *src = run_tensor(r, (uint32_t)post->operand);
    elements_load(&form, src + at * tensor_type_size(t->type), n, operand);
    epilogue_add(v, operand, n);
}

// Activations, addends and storing of the elements [at, at + n) of the output.
static void epilogue_store(const struct step *s, const struct conv *c, const struct run *r,
                           size_t at, float *v, size_t n)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct element_form form = element_form(y);
    if (s->node->quant && s->node->quant->in_output_units)
        form.scale = 1;
    for (uint32_t i = c->n_fused; i < s->node->n_post; i++) {
        const struct graph_post *post = &s->node->post[i];
        if (post->kind == POST_ADD)
            epilogue_add_operand(s, r, post, at, v, n);
        else if (post->kind == POST_LUT)
            lut_reals(post->lut, c->lut_values, form.scale, form.zp, v, n);
        else
            elements_post(post, v, n);
    }
    elements_store(&form, (uint8_t *)run_output(s, r, 0) + at * tensor_type_size(y->type), n, v);
}

static void epilogue_floats(const struct step *s, const struct conv *c, const struct run *r,
                            float *v, size_t first, size_t n)
{
    // A Swish far below 0 is a denormal float, which is 0 as fp16 anyway.
    bool drops = step_output(s, 0)->type == TENSOR_FLOAT16;
    uint32_t denormals = drops ? kernel_drop_denormals() : 0;
    for (size_t done = 0; done < n; done += ELEMENTS_CHUNK)
        epilogue_store(s, c, r, first + done, v + done,
                       n - done < ELEMENTS_CHUNK ? n - done : ELEMENTS_CHUNK);
    if (drops)
        kernel_keep_denormals(denormals);
}

// ---- sums whose zero point only a run knows (graph_conv_quant.sums) ----
//
//   sum[o] = sum + bias[o] + nz[o] * window sum - zero * weight_sums[o]     wrapping at 32 bits
//   y[o]   = sum[o], int32; or (float)sum[o] * scale + addend[o], then the activations
//
// Each rounding is that of the node which the conversion, the product or the addition was before it
// was fused (onnx_fuse.c): no products are contracted in this file.

// What a run knows: of operands that are left out, what changes nothing.
struct sums_job {
    uint32_t zero; // of the image, as int8 counts it
    bool real, scaled;
    float scale;
    const float *addend; // of each channel; NULL: none
};

static struct sums_job sums_begin(const struct step *s, const struct conv *c, const struct run *r)
{
    const struct graph_tensor *zp = step_input(s, 3);
    struct sums_job j = {.real = step_output(s, 0)->type == TENSOR_FLOAT32,
                         .addend = c->addend,
                         .scaled = step_input(s, 4) != NULL};
    if (j.scaled)
        memcpy(&j.scale, run_input(s, r, 4), sizeof j.scale);
    if (zp) {
        uint8_t stored = *(const uint8_t *)run_input(s, r, 3);
        j.zero = (uint32_t)(zp->type == TENSOR_UINT8 ? (int32_t)stored - 128 : (int8_t)stored);
    }
    return j;
}

KERNEL(void, sums_complete,
       (const int32_t *restrict sums, const int32_t *restrict bias, const int32_t *restrict weights,
        uint32_t zero, size_t n, int32_t *restrict dst),
       (sums, bias, weights, zero, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)bias[i] - zero * (uint32_t)weights[i]);
}

// With zero points of weights.
KERNEL(void, sums_add_windows,
       (int32_t *restrict dst, const int32_t *restrict nz, uint32_t window, size_t n),
       (dst, nz, window, n))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)((uint32_t)dst[i] + (uint32_t)nz[i] * window);
}

KERNEL(void, sums_to_real,
       (const int32_t *restrict sums, bool scaled, float scale, const float *restrict addend,
        size_t n, float *restrict dst),
       (sums, scaled, scale, addend, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)sums[i];
    for (size_t i = 0; scaled && i < n; i++)
        dst[i] = dst[i] * scale;
    for (size_t i = 0; addend && i < n; i++)
        dst[i] = dst[i] + addend[i];
}

#define CHUNK 1024 // channels that are done together

// Channels [from, from + n) of one pixel.
static void sums_store_part(const struct step *s, const struct conv *c, const struct sums_job *j,
                            const int32_t *sums, const int32_t *windows, size_t from, size_t n,
                            void *dst)
{
    int32_t complete[CHUNK];
    int32_t *to = j->real ? complete : dst;
    sums_complete(sums + from, c->bias + from, c->weight_sums + from, j->zero, n, to);
    size_t each = c->oc / c->window.groups;
    for (size_t o = from; windows && o < from + n;) {
        size_t end = (o / each + 1) * each, count = (end < from + n ? end : from + n) - o;
        sums_add_windows(to + (o - from), c->nz + o, (uint32_t)windows[o / each], count);
        o += count;
    }
    if (!j->real)
        return;
    sums_to_real(complete, j->scaled, j->scale, j->addend ? j->addend + from : NULL, n, dst);
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], dst, n);
}

static void epilogue_store_sums(const struct step *s, const struct conv *c, struct run *r,
                                const int32_t *sums, size_t first, size_t n_pixels)
{
    const struct sums_job j = sums_begin(s, c, r);
    const int32_t *windows = c->nz ? run_scratch(r, c->window_at) : NULL;
    uint8_t *dst = (uint8_t *)run_output(s, r, 0) + first * c->oc * sizeof(int32_t);
    for (size_t p = 0; p < n_pixels; p++)
        for (size_t from = 0; from < c->oc; from += CHUNK) {
            size_t n = c->oc - from < CHUNK ? c->oc - from : CHUNK;
            sums_store_part(s, c, &j, sums + p * c->oc,
                            windows ? windows + (first + p) * c->window.groups : NULL, from, n,
                            dst + (p * c->oc + from) * sizeof(int32_t));
        }
}

// ---- by a lookup table ----

static inline void epilogue_add_window(const int32_t *restrict nz, uint32_t window, size_t n,
                                       int32_t *restrict sums)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)nz[i] * window);
}

KERNEL(void, epilogue_add_window_sums,
       (const struct conv *c, const int32_t *windows, int32_t *sums, size_t n_pixels),
       (c, windows, sums, n_pixels))
{
    const size_t groups = c->window.groups, outputs = c->oc / groups;
    const int32_t *nz = c->nz;
    for (size_t p = 0; p < n_pixels; p++)
        for (size_t g = 0; g < groups; g++, windows++, sums += outputs)
            epilogue_add_window(nz + g * outputs, (uint32_t)*windows, outputs, sums);
}

static void epilogue_by_lut(const struct step *s, const struct conv *c, struct run *r,
                            int32_t *sums, size_t first, size_t n_pixels)
{
    if (c->nz) {
        const int32_t *windows = run_scratch(r, c->window_at);
        epilogue_add_window_sums(c, windows + first * c->window.groups, sums, n_pixels);
    }
    const struct lut_job job = {.kernel = c->lut,
                                .sums = sums,
                                .bias = c->bias,
                                .factor = c->scale,
                                .channels = c->oc,
                                .n = n_pixels * c->oc,
                                .dst = (int8_t *)run_output(s, r, 0) + first * c->oc,
                                .complete = c->lut_complete};
    lut_sums(&job);
}

// ---- all of them ----

void conv_epilogue(const struct step *s, const struct conv *c, struct run *r, void *sums,
                   size_t first, size_t n_pixels)
{
    if (!c->integer) {
        epilogue_floats(s, c, r, sums, first * c->oc, n_pixels * c->oc);
        return;
    }
    if (c->weight_sums) {
        epilogue_store_sums(s, c, r, sums, first, n_pixels);
        return;
    }
    if (c->lut) {
        epilogue_by_lut(s, c, r, sums, first, n_pixels);
        return;
    }
    if (c->requant.kind != REQUANT_NONE) {
        conv_requantize(s, c, r, sums, first, n_pixels);
        return;
    }
    float v[ELEMENTS_CHUNK];
    const int32_t *windows = c->nz ? run_scratch(r, c->window_at) : NULL;
    size_t channels = c->oc, groups = c->window.groups;
    size_t part = channels < ELEMENTS_CHUNK ? channels : ELEMENTS_CHUNK,
           pixels_at_once = ELEMENTS_CHUNK / part;
    for (size_t p = 0; p < n_pixels; p += pixels_at_once) {
        size_t n = n_pixels - p < pixels_at_once ? n_pixels - p : pixels_at_once;
        for (size_t from = 0; from < channels; from += part) {
            size_t count = channels - from < part ? channels - from : part;
            struct epilogue_part at = {.sums = (const int32_t *)sums + p * channels,
                                       .window_sums =
                                           windows ? windows + (first + p) * groups : NULL,
                                       .pixels = n,
                                       .from = from,
                                       .n = count};
            epilogue_to_real(c, &at, v);
            epilogue_store(s, c, r, (first + p) * channels + from, v, n * count);
        }
    }
}
