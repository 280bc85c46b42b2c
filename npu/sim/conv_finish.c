// From the sums of a convolution to its stored outputs.
#include "npu/sim/conv.h"

KERNEL static void real_integers(const int32_t *sums, const int32_t *bias, const float *scale,
                                 size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(int32_t)((uint32_t)sums[i] + (uint32_t)bias[i]) * scale[i];
}

// As the chip does it: 32 bits that wrap.
KERNEL static void real_with_nz(const int32_t *sums, const int32_t *bias, const int32_t *nz,
                                int32_t window, const float *scale, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)bias[i] + (uint32_t)nz[i] * (uint32_t)window;
        dst[i] = (float)(int32_t)sum * scale[i];
    }
}

KERNEL static void real_floats(const float *sums, const float *bias, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = sums[i] + bias[i];
}

// Channels [from, from+n) of one pixel as real numbers.
static void real_pixel(const struct conv *c, const void *sums, const int32_t *window, size_t from,
                       size_t n, float *dst)
{
    if (!c->integer && !c->float_bias)
        memcpy(dst, (const float *)sums + from, n * sizeof *dst);
    else if (!c->integer)
        real_floats((const float *)sums + from, c->float_bias + from, n, dst);
    else if (!window)
        real_integers((const int32_t *)sums + from, c->bias + from, c->scale + from, n, dst);
    else if (c->window.groups == 1)
        real_with_nz((const int32_t *)sums + from, c->bias + from, c->nz + from, window[0],
                     c->scale + from, n, dst);
    else
        for (size_t i = 0; i < n; i++) {
            size_t o = from + i, group = o / (c->oc / c->window.groups);
            real_with_nz((const int32_t *)sums + o, c->bias + o, c->nz + o, window[group],
                         c->scale + o, 1, dst + i);
        }
}

KERNEL static void add_rows(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void add_operand(const struct step *s, const struct run *r, const struct graph_post *post,
                        size_t at, float *v, size_t n)
{
    float operand[ROW_CHUNK];
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    struct row_form form = row_form(t);
    const uint8_t *src = run_tensor(r, (uint32_t)post->operand);
    row_load(&form, src + at * tensor_type_size(t->type), n, operand);
    add_rows(v, operand, n);
}

// Elements [at, at+n) of the output, which follow each other in memory.
static void store(const struct step *s, const struct run *r, size_t at, float *v, size_t n)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct row_form form = row_form(y);
    for (uint32_t i = 0; i < s->node->n_post; i++) {
        const struct graph_post *post = &s->node->post[i];
        if (post->kind == POST_ADD)
            add_operand(s, r, post, at, v, n);
        else
            row_post(post, v, n);
    }
    row_store(&form, (uint8_t *)run_output(s, r, 0) + at * tensor_type_size(y->type), n, v);
}

void conv_finish(const struct step *s, const struct conv *c, struct run *r, const void *sums,
                 size_t first, size_t n_pixels)
{
    float v[ROW_CHUNK];
    const int32_t *windows = c->nz ? run_scratch(r, c->window_at) : NULL;
    size_t channels = c->oc, groups = c->window.groups;
    size_t part = channels < ROW_CHUNK ? channels : ROW_CHUNK, together = ROW_CHUNK / part;
    for (size_t p = 0; p < n_pixels; p += together) {
        size_t n = n_pixels - p < together ? n_pixels - p : together;
        for (size_t from = 0; from < channels; from += part) {
            size_t count = channels - from < part ? channels - from : part;
            for (size_t k = 0; k < n; k++)
                real_pixel(c, (const int32_t *)sums + (p + k) * channels,
                           windows ? windows + (first + p + k) * groups : NULL, from, count,
                           v + k * count);
            store(s, r, (first + p) * channels + from, v, n * count);
        }
    }
}
