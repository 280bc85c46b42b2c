// From the sums of an integer convolution to int8, counted in steps of the output.
//
// In doubles: a float's roundings would now and then move a sum over a half, and one such step in
// an early layer becomes many in a deep net.
#include <math.h>

#include "npu/sim/conv.h"

// ---- preparation ----

static bool keeps_steps(const struct step *s, const struct graph_post *post)
{
    if (post->kind != POST_ADD)
        return post->kind == POST_RELU || post->kind == POST_CLIP || post->kind == POST_LEAKY_RELU;
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    return t->type == TENSOR_INT8 && t->quantized;
}

static bool counts_steps(const struct step *s)
{
    const struct graph_tensor *y = step_output(s, 0);
    bool steps = y->type == TENSOR_INT8 && y->quantized && !s->node->quant->in_steps;
    for (uint32_t i = 0; i < s->node->n_post; i++)
        steps = steps && keeps_steps(s, &s->node->post[i]);
    return steps;
}

int conv_steps_prepare(struct step *s, struct conv *c, struct error *e)
{
    if (!counts_steps(s))
        return 0;
    c->steps = step_alloc(s, c->oc, sizeof *c->steps);
    if (!c->steps)
        return error_no_memory(e, "scales", c->oc * sizeof *c->steps);
    for (uint32_t o = 0; o < c->oc; o++)
        c->steps[o] = s->node->quant->scale[o] / (double)step_output(s, 0)->scale;
    return 0;
}

// ---- sums to steps ----

// The innermost loops get plain pointers: then the compiler needs no checks for each pixel.
static inline void row_with_nz(const int32_t *restrict sums, const int32_t *restrict bias,
                               const int32_t *restrict nz, uint32_t window,
                               const double *restrict scale, size_t n, double *restrict dst)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)bias[i] + (uint32_t)nz[i] * window;
        dst[i] = (int32_t)sum * scale[i];
    }
}

static inline void row_without_nz(const int32_t *restrict sums, const int32_t *restrict bias,
                                  const double *restrict scale, size_t n, double *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)bias[i]) * scale[i];
}

KERNEL static void steps_without_nz(const struct conv *c, const struct conv_part *p, double *dst)
{
    size_t n = p->n, channels = c->oc, pixels = p->pixels;
    const int32_t *sums = p->sums + p->from, *bias = c->bias + p->from;
    const double *scale = c->steps + p->from;
    for (size_t k = 0; k < pixels; k++)
        row_without_nz(sums + k * channels, bias, scale, n, dst + k * n);
}

KERNEL static void steps_with_nz(const struct conv *c, const struct conv_part *p, double *dst)
{
    size_t n = p->n, channels = c->oc, pixels = p->pixels;
    const int32_t *sums = p->sums + p->from, *windows = p->windows;
    const int32_t *bias = c->bias + p->from, *nz = c->nz + p->from;
    const double *scale = c->steps + p->from;
    for (size_t k = 0; k < pixels; k++)
        row_with_nz(sums + k * channels, bias, nz, (uint32_t)windows[k], scale, n, dst + k * n);
}

// Each group has window sums of its own.
static void steps_of_groups(const struct conv *c, const struct conv_part *p, double *dst)
{
    size_t groups = c->window.groups, outputs = c->oc / groups;
    for (size_t k = 0; k < p->pixels; k++)
        for (size_t o = p->from; o < p->from + p->n; o++)
            row_with_nz(p->sums + k * c->oc + o, c->bias + o, c->nz + o,
                        (uint32_t)p->windows[k * groups + o / outputs], c->steps + o, 1, dst++);
}

// ---- what is done to steps ----

// Products of all, so that this is vector code.
KERNEL static void leaky_steps(double *v, double alpha, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double below = v[i] * alpha;
        v[i] = v[i] < 0 ? below : v[i];
    }
}

KERNEL static void add_steps(double *restrict v, const int8_t *restrict x, int32_t zp, double ratio,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] += ((double)x[i] - zp) * ratio;
}

struct bounds {
    double low, high;
};

static inline double within(struct bounds b, double v)
{
    v = v > b.low ? v : b.low;
    return v < b.high ? v : b.high;
}

KERNEL static void clip_steps(double *v, struct bounds b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = within(b, v[i]);
}

// Rounds and stores what lies within the bounds.
KERNEL static void round_steps(int8_t *restrict dst, size_t n, int32_t odd, int32_t rest,
                               struct bounds b, const double *restrict v)
{
    struct bounds stored = {-128.0 - rest - odd, 127.0 - rest - odd};
    struct bounds both = {within(stored, b.low), within(stored, b.high)};
    for (size_t i = 0; i < n; i++)
        dst[i] = (int8_t)((int32_t)rint(within(both, v[i]) + odd) + rest);
}

static bool is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static struct bounds clip_bounds(const struct graph_post *post, double step)
{
    if (post->kind == POST_RELU)
        return (struct bounds){0, INFINITY};
    return (struct bounds){(double)post->alpha / step, (double)post->beta / step};
}

static void post_steps(const struct step *s, const struct run *r, const struct graph_post *post,
                       size_t at, double *v, size_t n)
{
    double step = (double)step_output(s, 0)->scale;
    if (is_clip(post)) {
        clip_steps(v, clip_bounds(post, step), n);
    } else if (post->kind == POST_LEAKY_RELU) {
        leaky_steps(v, (double)post->alpha, n);
    } else {
        const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
        const int8_t *x = run_tensor(r, (uint32_t)post->operand);
        add_steps(v, x + at, t->zp, (double)t->scale / step, n);
    }
}

static void store_steps(const struct step *s, const struct run *r, size_t at, double *v, size_t n)
{
    const struct graph_tensor *y = step_output(s, 0);
    const struct graph_post *post = s->node->post;
    struct row_form form = row_form(y);
    struct bounds bounds = {-INFINITY, INFINITY};
    uint32_t n_post = s->node->n_post;
    if (n_post && is_clip(&post[n_post - 1])) // costs nothing when the steps are stored
        bounds = clip_bounds(&post[--n_post], (double)y->scale);
    for (uint32_t i = 0; i < n_post; i++)
        post_steps(s, r, &post[i], at, v, n);
    round_steps((int8_t *)run_output(s, r, 0) + at, n, form.odd, form.zp - form.odd, bounds, v);
}

// ---- all of it ----

static void finish_part(const struct step *s, const struct conv *c, const struct run *r,
                        const struct conv_part *p, size_t at)
{
    double v[ROW_CHUNK];
    if (!p->windows)
        steps_without_nz(c, p, v);
    else if (c->window.groups == 1)
        steps_with_nz(c, p, v);
    else
        steps_of_groups(c, p, v);
    store_steps(s, r, at, v, p->pixels * p->n);
}

void conv_steps_finish(const struct step *s, const struct conv *c, struct run *r,
                       const int32_t *sums, size_t first, size_t n_pixels)
{
    const int32_t *windows = c->nz ? run_scratch(r, c->window_at) : NULL;
    size_t channels = c->oc, groups = c->window.groups;
    size_t most = channels < ROW_CHUNK ? channels : ROW_CHUNK, together = ROW_CHUNK / most;
    for (size_t p = 0; p < n_pixels; p += together)
        for (size_t from = 0; from < channels; from += most) {
            struct conv_part part = {.sums = sums + p * channels,
                                     .windows = windows ? windows + (first + p) * groups : NULL,
                                     .pixels = n_pixels - p < together ? n_pixels - p : together,
                                     .from = from,
                                     .n = channels - from < most ? channels - from : most};
            finish_part(s, c, r, &part, (first + p) * channels + from);
        }
}
