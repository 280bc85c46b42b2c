// Preparing integer convolutions: biases and scales in the form that all kernels take.
//
//   bias[o] = the file's, without its term for the image's zero point, -x_zp * Σ (w + nz): kernels
//             subtract x_zp from the image, or that term from the sums, themselves
//   max_sum = the largest |sum + bias| that any image can give: whether floats hold sums exactly
//
// All exact. Tests: test_sim_conv, on every instruction set.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/conv/conv.h"
#include "npu/sim/simd/lut_steps/lut_steps.h"

int32_t conv_weight_zp(const struct graph_conv_quant *q, size_t taps, uint32_t o, size_t tap)
{
    return q->nz_in_taps ? q->nz[o * taps + tap] : q->nz[o];
}

#define WEIGHTS_CHUNK 4096 // (2^15 + 2^7) * 4096 < 2^31: their sum fits 32 bits whatever nz is

KERNEL(void, weights_sum_chunk,
       (const int8_t *restrict w, size_t n, int32_t nz, int32_t *ret_sum, int32_t *ret_reach),
       (w, n, nz, ret_sum, ret_reach))
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

// Σ (w + nz) of one output channel; *ret_reach: Σ |w + nz|.
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

static void conv_correct_bias(const struct step *s, struct conv *c, const int8_t *w)
{
    const struct graph_conv_quant *q = s->node->quant;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups;
    int64_t max_x = c->x_zp < 0 ? 127 - c->x_zp : c->x_zp + 128, reach;
    for (uint32_t o = 0; o < c->oc; o++) {
        int64_t sum = weights_sum(q, w + o * inputs * taps, inputs, taps, o, &reach);
        c->bias[o] = (int32_t)(q->bias[o] + (q->bias_holds_zp ? c->x_zp * sum : 0));
        if (c->weight_sums)
            c->weight_sums[o] = (int32_t)sum;
        c->max_sums[o] = (uint64_t)(reach * max_x + llabs(c->bias[o]));
        c->max_sum = c->max_sums[o] > c->max_sum ? c->max_sums[o] : c->max_sum;
    }
}

// ---- lookup tables ----

// NEON takes a byte from memory in as many instructions as it computes one from segments, in fewer
// where that is not all (no exceptions, nothing beyond them), and on small CPUs in less time.
#ifdef __aarch64__
#define LINES_ALONE     true // without AVX512-VBMI
#define MOST_EXCEPTIONS 4
#define MOST_BYTES      (1 << 16) // of a table that a cache holds
#define FEW_STEPS       4         // of a segment: fewer instructions than from segments
#else
#define LINES_ALONE     false
#define MOST_EXCEPTIONS LUT_EXCEPTIONS
#define MOST_BYTES      0
#define FEW_STEPS       LUT_STEPS_MOST
#endif

// Where more follows, outputs are made from real numbers (conv_epilogue.c). What leads into a table
// is in c->scale.
static bool conv_ends_in_lut(const struct step *s)
{
    const struct graph_node *n = s->node;
    return n->n_post == 1 && n->post[0].kind == POST_LUT && step_output(s, 0)->type == TENSOR_INT8;
}

// A copy of `table`, which has `size` bytes, in memory of the plan.
static const void *conv_lut_keep(struct step *s, const void *table, size_t size)
{
    void *kept = step_alloc(s, 1, size);
    return kept ? memcpy(kept, table, size) : NULL;
}

static bool conv_lut_is_small(const struct lut_kernel *k, const int8_t *dense)
{
    struct lut_kernel by_bytes = *k;
    lut_choose_dense(&by_bytes, dense);
    return by_bytes.n_dense <= MOST_BYTES;
}

// Whether segments serve, and better than a dense table.
static bool conv_lut_takes_segments(const struct lut_kernel *k, const int8_t *dense,
                                    struct lut_segments *ret)
{
    const int8_t ends[2] = {lut_stored(k->lut, INT32_MIN), lut_stored(k->lut, INT32_MAX)};
    return lut_has_lines() && (dnn_has_vnni() || LINES_ALONE) &&
           lut_fits_lines(k->lut, k->bounds) && lut_fit_segments(dense, ends, ret) &&
           ret->n_exceptions <= MOST_EXCEPTIONS &&
           (ret->saturates || !MOST_BYTES || !conv_lut_is_small(k, dense));
}

// Few steps, segments or many steps where there are kernels for them, else the dense table, which
// has ten times the size.
static int conv_lut_choose_kernel(struct step *s, struct lut_kernel *k, struct error *e)
{
    cleanup(free_p) int8_t *dense = malloc(LUT_N_DENSE);
    struct lut_steps steps;
    struct lut_segments segments;
    if (!dense)
        return error_no_memory(e, "a lookup table", LUT_N_DENSE);
    lut_fill_dense(k->lut, dense);
    const bool found =
        lut_has_steps() && (dnn_has_vnni() || LINES_ALONE) && lut_find_steps(k, dense, &steps);
    if (found && steps.most <= FEW_STEPS) {
        k->steps = conv_lut_keep(s, &steps, sizeof steps);
    } else if (conv_lut_takes_segments(k, dense, &segments)) {
        k->segments = conv_lut_keep(s, &segments, sizeof segments);
    } else if (found) {
        k->steps = conv_lut_keep(s, &steps, sizeof steps);
    } else {
        lut_choose_dense(k, dense);
        int8_t *bytes = step_alloc(s, 1, (size_t)k->n_dense);
        k->dense = bytes;
        if (bytes)
            lut_fill(k, dense, bytes);
    }
    return k->steps || k->segments || k->dense ? 0
                                               : error_no_memory(e, "a lookup table", LUT_N_DENSE);
}

// Of a table behind which more follows.
static int conv_lut_take_values(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_node *n = s->node;
    if (!n->n_post || n->post[0].kind != POST_LUT)
        return 0;
    int16_t *values = step_alloc(s, LUT_N_DENSE, sizeof *values);
    if (!values)
        return error_no_memory(e, "a lookup table", LUT_N_DENSE * sizeof *values);
    lut_fill_values(n->post[0].lut, values);
    c->lut_values = values;
    return 0;
}

static int conv_lut_prepare(struct step *s, struct conv *c, struct error *e)
{
    if (!conv_ends_in_lut(s))
        return conv_lut_take_values(s, c, e);
    c->lut = step_alloc(s, 1, sizeof *c->lut);
    if (!c->lut)
        return error_no_memory(e, "a lookup table", sizeof *c->lut);
    const struct graph_stages *t = s->node->quant->stages;
    c->lut->lut = s->node->post[0].lut;
    if (!lut_find_bounds(c->lut->lut, LUT_MAX_V, c->lut->bounds))
        return step_refuse(s, e,
                           "its lookup table rises or falls too slowly beyond its ends (by %d / "
                           "2^%u and %d / 2^%u)",
                           c->lut->lut->slope[0], c->lut->lut->slope_shift[0],
                           c->lut->lut->slope[1], c->lut->lut->slope_shift[1]);
    for (uint32_t o = 0; o < c->oc + CONV_MORE; o++)
        c->scale[o] = (float)ldexp(t->mul[o % c->oc], -(int)t->mul_shift[0]);
    lut_set_inputs(c->lut, ldexp(t->bn[0].factor, -(int)t->bn[0].shift), c->scale, c->oc,
                   (double)c->max_sum);
    return conv_lut_choose_kernel(s, c->lut, e);
}

// Kernels whose sums have their bias leave zeros there.
static bool conv_lut_is_complete(const struct conv *c)
{
    return c->kernel == CONV_VNNI && lut_fits_float(c->lut, c->scale, c->oc, (double)c->max_sum);
}

int conv_integer_prepare(struct step *s, struct conv *c, int8_t *w, struct error *e)
{
    const struct graph_conv_quant *q = s->node->quant;
    c->bias = step_alloc(s, c->oc + CONV_MORE, sizeof *c->bias);
    c->scale = step_alloc(s, c->oc + CONV_MORE, sizeof *c->scale);
    c->max_sums = step_alloc(s, c->oc, sizeof *c->max_sums);
    if (!c->bias || !c->scale || !c->max_sums || q->n != c->oc)
        return error_no_memory(e, "a bias", c->oc * sizeof *c->bias);
    if (q->sums) {
        c->weight_sums = step_alloc(s, c->oc, sizeof *c->weight_sums);
        if (!c->weight_sums)
            return error_no_memory(e, "a weight", c->oc * sizeof *c->weight_sums);
    }
    if (c->x_zp < -128 || c->x_zp > 127)
        return step_refuse(s, e, "its input's zero point is %d", c->x_zp);
    for (uint32_t o = 0; o < c->oc + CONV_MORE; o++)
        c->scale[o] = (float)q->scale[o % c->oc];
    conv_correct_bias(s, c, w);
    for (uint32_t o = c->oc; o < c->oc + CONV_MORE; o++)
        c->bias[o] = c->bias[o % c->oc]; // of the next pixels, where few channels share a vector
    int r = conv_lut_prepare(s, c, e);
    c->lut_complete = c->lut && conv_lut_is_complete(c);
    if (r == 0)
        r = conv_requantize_prepare(s, c, e);
    if (r < 0)
        return r;
    if (c->kernel == CONV_DEPTHWISE)
        return conv_depthwise_prepare(s, c, w, e);
    if (c->kernel == CONV_VNNI)
        return conv_vnni_prepare(s, c, w, e);
    if (c->kernel == CONV_INT16)
        return conv_int16_prepare(s, c, w, e);
    if (c->kernel == CONV_PLAIN)
        return conv_plain_prepare(s, c, w, e);
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
