// Normalizations, in doubles:
//
// LayerNormalization, InstanceNormalization:
//     y = (x - mean) / sqrt(variance + epsilon) * scale + bias    per group; per channel of an
//     image
// LRN: y = x / (bias + alpha / size * Σ x²)^beta                  over `size` neighbouring channels
// Tests: test_onnx_nodes (ONNX's own cases).
#include <math.h>

#include "npu/sim/ref/ref.h"
#include "npu/sim/simd/kernel.h"

static bool all_real(const struct ref_call *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (c->in[i].t && !c->in[i].real)
            return false;
    return c->in[0].t && c->out[0].real && c->in[0].t->n_elems == c->out[0].t->n_elems;
}

// Mean and 1 / deviation of n values, in two passes: exact also where the mean is large against the
// deviation.
static void norm_moments(const union ref_value *x, uint64_t n, double epsilon, double *mean,
                         double *inverse)
{
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += x[i].r;
    *mean = n ? sum / (double)n : 0;
    for (uint64_t i = 0; i < n; i++)
        squares += (x[i].r - *mean) * (x[i].r - *mean);
    *inverse = 1 / sqrt((n ? squares / (double)n : 0) + epsilon);
}

// ---- LayerNormalization: ints: axis; reals: epsilon ----

// Elements from the axis on, which share a mean.
static uint64_t group_size(const struct ref_call *c)
{
    const struct graph_tensor *x = c->in[0].t;
    uint64_t n = 1;
    for (uint32_t i = (uint32_t)c->node->ref.ints[0]; i < x->n_dims; i++)
        n *= x->dims[i];
    return n;
}

static int check_layer_norm(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    struct ref_walk w;
    bool fits = all_real(c, 3) && c->in[1].t;
    if (fits) {
        ref_walk_init(&w, c->in[0].t);
        fits = ref_walk_broadcast(&w, c->in[1].t) &&
               (!c->in[2].t || ref_walk_broadcast(&w, c->in[2].t));
    }
    uint64_t n = fits ? group_size(c) : 0;
    for (int i = 1; i < 3 && fits && n; i++)
        fits = !c->out[i].t || (c->out[i].real && c->out[i].t->n_elems == c->in[0].t->n_elems / n);
    return fits && n ? 0 : ref_refuse(c, e, "its inputs and outputs do not fit together");
}

// Outputs 1 and 2, if wanted: mean and 1 / deviation of each group.
static int run_layer_norm(struct ref_call *c, struct error *e)
{
    (void)e;
    uint64_t n = group_size(c), count = c->in[0].t->n_elems;
    double epsilon = (double)c->node->ref.reals[0], mean = 0, inverse = 0;
    struct ref_walk w;
    ref_walk_init(&w, c->in[0].t);
    ref_walk_broadcast(&w, c->in[1].t);
    if (c->in[2].t)
        ref_walk_broadcast(&w, c->in[2].t);
    for (uint64_t k = 0; k < count; k++, ref_walk_next(&w)) {
        if (k % n == 0) {
            norm_moments(c->in[0].v + k, n, epsilon, &mean, &inverse);
            if (c->out[1].t)
                c->out[1].v[k / n].r = mean;
            if (c->out[2].t)
                c->out[2].v[k / n].r = inverse;
        }
        double bias = c->in[2].t ? c->in[2].v[w.at[1]].r : 0;
        c->out[0].v[k].r = (c->in[0].v[k].r - mean) * inverse * c->in[1].v[w.at[0]].r + bias;
    }
    return 0;
}

// ---- InstanceNormalization: reals: epsilon ----

static int check_instance_norm(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t;
    bool fits = all_real(c, 3) && x->n_dims >= 2 && x->n_elems && c->in[1].t && c->in[2].t &&
                c->in[1].t->n_elems == x->dims[1] && c->in[2].t->n_elems == x->dims[1];
    return fits ? 0 : ref_refuse(c, e, "its inputs do not fit together");
}

static int run_instance_norm(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = nd_axis(c->in[0].t, 1);
    for (uint64_t k = 0; k < a.outer * a.size; k++) {
        const union ref_value *x = c->in[0].v + k * a.inner;
        double mean, inverse, scale = c->in[1].v[k % a.size].r, bias = c->in[2].v[k % a.size].r;
        norm_moments(x, a.inner, (double)c->node->ref.reals[0], &mean, &inverse);
        for (uint64_t i = 0; i < a.inner; i++)
            c->out[0].v[k * a.inner + i].r = (x[i].r - mean) * inverse * scale + bias;
    }
    return 0;
}

// ---- LRN: ints: size; reals: alpha, beta, bias ----

static int check_lrn(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = all_real(c, 1) && c->in[0].t->n_dims >= 2 && c->node->ref.ints[0] >= 1;
    return fits ? 0 : ref_refuse(c, e, "its input does not fit its output, or its size is 0");
}

#define LRN_COLUMNS 64 // elements of a channel at a time

// bases become their powers. The usual exponents are square roots, which processors have as
// vectors.
KERNEL(void, lrn_powers, (double *v, size_t n, double exponent), (v, n, exponent))
{
    if (exponent >= .5 && exponent <= .5)
        for (size_t i = 0; i < n; i++)
            v[i] = sqrt(v[i]);
    else if (exponent >= .75 && exponent <= .75)
        for (size_t i = 0; i < n; i++)
            v[i] = sqrt(v[i]) * sqrt(sqrt(v[i]));
    else
        for (size_t i = 0; i < n; i++)
            v[i] = pow(v[i], exponent);
}

KERNEL(void, lrn_add_squares, (const union ref_value *restrict x, size_t n, double *restrict sums),
       (x, n, sums))
{
    for (size_t i = 0; i < n; i++)
        sums[i] += x[i].r * x[i].r;
}

// n elements of the channel x, whose window is the channels [low, high] beside it, `step` apart.
static void lrn_part(const float *p, const union ref_value *x, int64_t low, int64_t high,
                     int64_t step, double size, size_t n, union ref_value *y)
{
    double bases[LRN_COLUMNS] = {0};
    for (int64_t i = low; i <= high; i++)
        lrn_add_squares(x + i * step, n, bases);
    for (size_t i = 0; i < n; i++)
        bases[i] = (double)p[2] + (double)p[0] / size * bases[i];
    lrn_powers(bases, n, (double)p[1]);
    for (size_t i = 0; i < n; i++)
        y[i].r = x[i].r / bases[i];
}

// The window of an even size has one channel more behind than in front.
static int run_lrn(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = nd_axis(c->in[0].t, 1);
    int64_t size = c->node->ref.ints[0], channels = (int64_t)a.size, step = (int64_t)a.inner;
    for (int64_t k = 0; k < (int64_t)a.outer * channels; k++) {
        int64_t own = k % channels, low = (size - 1) / 2, high = size / 2;
        low = low < own ? low : own;
        high = high < channels - 1 - own ? high : channels - 1 - own;
        for (int64_t at = 0; at < step; at += LRN_COLUMNS) {
            size_t n = (size_t)(step - at < LRN_COLUMNS ? step - at : LRN_COLUMNS);
            lrn_part(c->node->ref.reals, c->in[0].v + k * step + at, -low, high, step, (double)size,
                     n, c->out[0].v + k * step + at);
        }
    }
    return 0;
}

const struct ref_operator ref_layer_norm = {.check = check_layer_norm, .run = run_layer_norm};
const struct ref_operator ref_instance_norm = {.check = check_instance_norm,
                                               .run = run_instance_norm};
const struct ref_operator ref_lrn = {.check = check_lrn, .run = run_lrn};
