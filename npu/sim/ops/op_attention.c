// Attention of an NPU of integers (REF_OP_ATTENTION, whose formula is in ref_attention.c): queries,
// products and weights have 8 bits, so a head is two products of matrices of int8 and what can be
// looked up between them.
//
//   Q [N][D] --table--> int8     S = Q Kᵀ [N][M], int32     --stages--> products, int8
//   weights = table[top - product], made for each query     Y = W V [N][E] --factor--> int8
//
// Exact: sums are integers, by oneDNN's product of int8 where the CPU has one that does not
// saturate, else by its product of floats, which holds sums below 2^24; others are left to the
// reference. e^x is computed once for each difference of two products. Real numbers are doubles, as
// in the reference, and rounded where it rounds; products are made in floats where these give the
// same: a fused multiply-add rounds once, and a float near ROUNDER has units of 1.
//
// Heads go through ops/attention where the CPU has AVX512-VNNI and AVX512-VBMI.
//
// Tests: test_sim_attention, with both products; test_strangers.
#include <math.h>
#include <string.h>

#include <omp.h>

#include "npu/sim/exec/dnn.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/ops/attention/attention.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/int8.h"
#include "npu/sim/simd/kernel.h"

#define STEPS     ATTENTION_STEPS
#define MAX_EXACT (1 << 24)
#define MAX_STEP  (128 * 255) // of a sum, in size
#define ROUNDER   0x1.8p23f   // its bits end with 22 zeros
#define MAX_UNITS (1 << 22)   // floats as far from it have units of 1

// ---- preparation ----

static bool is_images_of(const struct graph_tensor *t, const struct graph_tensor *heads)
{
    return t && t->type == TENSOR_INT8 && t->quantized && !t->constant && t->n_dims == 4 &&
           t->dims[2] == 1 && t->dims[0] == heads->dims[0] && t->n_elems && t->scale > 0 &&
           t->zp >= INT8_MIN && t->zp <= INT8_MAX;
}

bool op_attention_fits(const struct graph *g, const struct graph_node *n)
{
    const float *reals = n->ref.reals;
    const struct graph_tensor *t[4];
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_ATTENTION || n->n_inputs != 3 ||
        n->n_outputs != 1 || n->n_post || !(reals[REF_ATTENTION_QUERY] > 0) ||
        !(reals[REF_ATTENTION_PRODUCT] > 0))
        return false;
    for (int i = 0; i < 4; i++) {
        int32_t index = i < 3 ? n->inputs[i] : n->outputs[0];
        t[i] = index < 0 ? NULL : &g->tensors[index];
        if (!t[i] || !is_images_of(t[i], t[0]))
            return false;
    }
    return t[3]->channels_last && t[1]->dims[1] == t[0]->dims[1] &&
           t[2]->dims[3] == t[1]->dims[3] && t[3]->dims[1] == t[2]->dims[1] &&
           t[3]->dims[3] == t[0]->dims[3] && (uint64_t)t[0]->dims[1] * MAX_STEP < MAX_EXACT &&
           (uint64_t)t[1]->dims[3] * MAX_STEP < MAX_EXACT;
}

static struct matrix matrix_of(const struct graph_tensor *t)
{
    return (struct matrix){
        .transposed = !t->channels_last, .size = t->n_elems / t->dims[0], .zp = t->zp};
}

static double attention_saturate(double n)
{
    return fmin(fmax(rint(n), INT8_MIN), INT8_MAX);
}

// Whether floats hold all that products are made of.
static bool attention_fits_floats(const struct attention *a)
{
    double most = (double)a->depth * MAX_STEP * fabs(a->scale) + 1;
    bool whole = a->zero >= rint(a->zero) && a->zero <= rint(a->zero);
    return kernel_has_avx2() && whole && most < MAX_UNITS &&
           most * fabs(a->to_product) + fabs(a->zero) < MAX_UNITS;
}

static void attention_make_tables(const struct step *s, struct attention *a)
{
    const float *reals = s->node->ref.reals;
    const struct graph_tensor *q = step_input(s, 0);
    double step = (double)reals[REF_ATTENTION_QUERY];
    double more = (double)reals[REF_ATTENTION_QUERY_MORE];
    for (int i = 0; i < STEPS; i++) {
        double x = ((int8_t)i - q->zp) * (double)q->scale;
        a->query[i] = (int8_t)attention_saturate(x / step + more);
        a->powers[STEPS - 1 - i] = exp(-(i * (double)reals[REF_ATTENTION_PRODUCT]));
    }
    a->scale = (double)reals[REF_ATTENTION_SCALE];
    a->to_product = (double)reals[REF_ATTENTION_TO_PRODUCT];
    a->zero = (double)reals[REF_ATTENTION_PRODUCT_ZERO];
    a->in_floats = attention_fits_floats(a);
    a->to_weight = (double)reals[REF_ATTENTION_TO_WEIGHT];
    a->to_output = (double)reals[REF_ATTENTION_WEIGHT] * (double)step_input(s, 2)->scale /
                   (double)step_output(s, 0)->scale;
}

static int attention_take_scratch(struct step *s, struct attention *a, struct error *e)
{
    uint64_t most = a->keys > a->width ? a->keys : a->width, sums = a->queries * most;
    uint64_t left = a->queries * (a->depth > a->keys ? a->depth : a->keys);
    uint64_t right = a->keys * (a->depth > a->width ? a->depth : a->width);
    int r = step_scratch(s, a->queries * a->depth, &a->queries_at, e);
    if (r == 0)
        r = step_scratch(s, sums * sizeof(int32_t), &a->sums_at, e);
    if (r == 0)
        r = step_scratch(s, a->queries * a->keys, &a->weights_at, e);
    if (r == 0 && !a->integers)
        r = step_scratch(s, left * sizeof(float), &a->floats_at[0], e);
    if (r == 0 && !a->integers)
        r = step_scratch(s, right * sizeof(float), &a->floats_at[1], e);
    return r;
}

static int attention_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *q = step_input(s, 0), *k = step_input(s, 1), *v = step_input(s, 2);
    struct attention *a = s->state = step_alloc(s, 1, sizeof *a);
    if (!a)
        return error_no_memory(e, "a step", sizeof *a);
    *a = (struct attention){.heads = q->dims[0],
                            .depth = q->dims[1],
                            .width = v->dims[1],
                            .queries = q->dims[3],
                            .keys = k->dims[3],
                            .q = matrix_of(q),
                            .k = matrix_of(k),
                            .v = matrix_of(v),
                            .zp = step_output(s, 0)->zp,
                            .integers = dnn_int8_is_exact()};
    attention_make_tables(s, a);
    return attention_vnni_fits(a) ? attention_vnni_prepare(s, a, e)
                                  : attention_take_scratch(s, a, e);
}

// ---- products of matrices ----

KERNEL(void, to_floats, (const int8_t *x, int32_t zp, size_t n, float *to), (x, zp, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(x[i] - zp);
}

KERNEL(void, to_integers, (void *sums, size_t n), (sums, n))
{
    const float *from = sums;
    int32_t *to = sums;
    for (size_t i = 0; i < n; i++)
        to[i] = (int32_t)from[i];
}

KERNEL(void, subtract_each, (int32_t * sums, size_t n, uint32_t less), (sums, n, less))
{
    for (size_t i = 0; i < n; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] - less);
}

KERNEL(int32_t, sum_of_bytes, (const int8_t *x, size_t step, size_t n), (x, step, n))
{
    int32_t sum = 0;
    if (step == 1)
        for (size_t i = 0; i < n; i++)
            sum += x[i];
    else
        for (size_t i = 0; i < n; i++)
            sum += x[i * step];
    return sum;
}

// The right one's zero point, taken off: as often as the sum of a row of the left one.
static void subtract_zero_point(const struct attention_factors *f, int32_t *sums)
{
    const size_t step = f->turned[0] ? f->rows : 1, row = f->turned[0] ? 1 : f->inner;
    for (size_t i = 0; i < f->rows && f->zp; i++)
        subtract_each(sums + i * f->columns, f->columns,
                      (uint32_t)f->zp * (uint32_t)sum_of_bytes(f->left + i * row, step, f->inner));
}

// oneDNN 2.6 takes zero points where there is AVX512, and else computes in plain C.
static dnnl_status_t attention_multiply_integers(const struct attention_factors *f,
                                                 const char turned[2], int32_t *sums)
{
    dnnl_dim_t m = (dnnl_dim_t)f->rows, n = (dnnl_dim_t)f->columns, k = (dnnl_dim_t)f->inner;
    const bool takes_zp = kernel_has_avx512();
    const int32_t none = 0;
    dnnl_status_t status = dnnl_gemm_s8s8s32(
        turned[0], turned[1], 'F', m, n, k, 1, f->left, f->turned[0] ? m : k, 0, f->right,
        f->turned[1] ? k : n, takes_zp ? (int8_t)f->zp : 0, 0, sums, n, &none);
    if (!takes_zp)
        subtract_zero_point(f, sums);
    return status;
}

static dnnl_status_t attention_multiply(const struct attention *a, struct run *r,
                                        const struct attention_factors *f, int32_t *sums)
{
    char turned[2] = {f->turned[0] ? 'T' : 'N', f->turned[1] ? 'T' : 'N'};
    dnnl_dim_t m = (dnnl_dim_t)f->rows, n = (dnnl_dim_t)f->columns, k = (dnnl_dim_t)f->inner;
    dnnl_dim_t left = f->turned[0] ? m : k, right = f->turned[1] ? k : n;
    if (a->integers)
        return attention_multiply_integers(f, turned, sums);
    float *x = run_scratch(r, a->floats_at[0]), *y = run_scratch(r, a->floats_at[1]);
    if (attention_neon_multiply(f, (int8_t *)x, (int8_t *)y, sums)) {
        subtract_zero_point(f, sums);
        return dnnl_success;
    }
    to_floats(f->left, 0, f->rows * f->inner, x);
    to_floats(f->right, f->zp, f->inner * f->columns, y);
    dnnl_status_t status =
        dnnl_sgemm(turned[0], turned[1], m, n, k, 1, x, left, y, right, 0, (float *)sums, n);
    to_integers(sums, f->rows * f->columns);
    return status;
}

// ---- between them ----

// Sums of a query to products, as distances from the lowest one.
KERNEL(void, to_products,
       (const struct attention *a, const int32_t *restrict sums, size_t n,
        uint8_t *restrict products),
       (a, sums, n, products))
{
    double scale = a->scale, to_product = a->to_product, zero = a->zero;
    for (size_t i = 0; i < n; i++) {
        double v = rint(rint(sums[i] * scale) * to_product + zero);
        v = v > INT8_MIN ? v : INT8_MIN;
        v = v < INT8_MAX ? v : INT8_MAX;
        products[i] = (uint8_t)((int32_t)v - INT8_MIN);
    }
}

// The same in floats.
KERNEL(void, to_products_floats,
       (const struct attention *a, const int32_t *restrict sums, size_t n,
        uint8_t *restrict products),
       (a, sums, n, products))
{
    const float scale = (float)a->scale, to_product = (float)a->to_product;
    const float zero = ROUNDER + (float)a->zero, low = ROUNDER + INT8_MIN, top = ROUNDER + INT8_MAX;
    for (size_t i = 0; i < n; i++) {
        float v = fmaf((float)sums[i], scale, ROUNDER) - ROUNDER;
        v = fmaf(v, to_product, zero);
        v = v > low ? v : low;
        v = v < top ? v : top;
        products[i] = (uint8_t)(float_bits(v) + 128);
    }
}

KERNEL(void, find_range, (const uint8_t *x, size_t n, size_t *ret_low, size_t *ret_top),
       (x, n, ret_low, ret_top))
{
    uint8_t low = UINT8_MAX, top = 0;
    for (size_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        top = x[i] > top ? x[i] : top;
    }
    *ret_low = low;
    *ret_top = top;
}

#define LANES 8

// The weights of products in [low, top], and maybe of some beyond.
KERNEL(void, divide_powers,
       (const uint32_t *counts, const double *powers, double to_weight, size_t low, size_t top,
        int8_t *weights),
       (counts, powers, to_weight, low, top, weights))
{
    double sums[LANES] = {0}, sum = 0;
    for (size_t at = low - low % LANES; at <= top; at += LANES)
        for (size_t i = at; i < at + LANES; i++)
            sums[i - at] += counts[i] * powers[i];
    for (size_t i = 0; i < LANES; i++)
        sum += sums[i];
    // Powers fall from the top on: where LANES of them come to nothing, so do all that follow.
    int8_t any = 1;
    for (size_t at = top - top % LANES + LANES; at > low && any; at -= LANES) {
        any = 0;
        for (size_t i = at - LANES; i < at; i++) {
            double v = rint(powers[i] / sum * to_weight);
            v = v > INT8_MIN ? v : INT8_MIN;
            v = v < INT8_MAX ? v : INT8_MAX;
            weights[i] = (int8_t)(int32_t)v;
            any |= weights[i];
        }
    }
}

// How often each of n products in [low, top] is there; of what else is in a vector with them, 0.
// Every fourth product is counted together, since a counter takes a while until it can be counted
// on.
KERNEL(void, count_products,
       (const uint8_t *products, size_t n, size_t low, size_t top, uint32_t *restrict counts),
       (products, n, low, top, counts))
{
    size_t first = low - low % LANES, end = top - top % LANES + LANES, i = 0;
    for (int k = 0; k < 4; k++)
        memset(counts + (size_t)k * STEPS + first, 0, (end - first) * sizeof *counts);
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            counts[k * STEPS + products[i + k]]++;
    for (; i < n; i++)
        counts[products[i]]++;
    for (i = first; i < end; i++)
        counts[i] += counts[STEPS + i] + counts[2 * STEPS + i] + counts[3 * STEPS + i];
}

void attention_weigh(const struct attention *a, int8_t *weights)
{
    uint32_t counts[4 * STEPS];
    const uint8_t *products = (uint8_t *)weights;
    int8_t table[STEPS] = {0};
    size_t low, top;
    find_range(products, a->keys, &low, &top);
    count_products(products, a->keys, low, top, counts);
    divide_powers(counts, a->powers + STEPS - 1 - top, a->to_weight, low, top, table);
    int8_map(table, weights, a->keys, weights);
}

KERNEL(void, store_line,
       (const struct attention *a, const int32_t *restrict sums, size_t n, int8_t *restrict to),
       (a, sums, n, to))
{
    double factor = a->to_output, zp = a->zp;
    for (size_t i = 0; i < n; i++) {
        double v = rint(sums[i] * factor + zp);
        v = v > INT8_MIN ? v : INT8_MIN;
        v = v < INT8_MAX ? v : INT8_MAX;
        to[i] = (int8_t)(int32_t)v;
    }
}

void attention_store(const struct attention *a, const int32_t *sums, size_t n, int8_t *to)
{
    store_line(a, sums, n, to);
}

// Products and weights take the same memory, one after the other.
static void weigh_query(const struct attention *a, const int32_t *sums, int8_t *weights)
{
    (a->in_floats ? to_products_floats : to_products)(a, sums, a->keys, (uint8_t *)weights);
    attention_weigh(a, weights);
}

static int attention_run_head(const struct step *s, struct run *r, const struct attention_head *h,
                              struct error *e)
{
    const struct attention *a = s->state;
    int8_t *q = run_scratch(r, a->queries_at), *w = run_scratch(r, a->weights_at);
    int32_t *sums = run_scratch(r, a->sums_at);
    int8_map(a->query, h->q, a->q.size, q);
    struct attention_factors f = {.left = q,
                                  .right = h->k,
                                  .turned = {a->q.transposed, !a->k.transposed},
                                  .rows = a->queries,
                                  .inner = a->depth,
                                  .columns = a->keys,
                                  .zp = a->k.zp};
    dnnl_status_t status = attention_multiply(a, r, &f, sums);
    if (status != dnnl_success)
        return dnn_error(s, status, "a product", e);
    for (size_t i = 0; i < a->queries; i++)
        weigh_query(a, sums + i * a->keys, w + i * a->keys);
    f = (struct attention_factors){.left = w,
                                   .right = h->v,
                                   .turned = {false, a->v.transposed},
                                   .rows = a->queries,
                                   .inner = a->keys,
                                   .columns = a->width,
                                   .zp = a->v.zp};
    status = attention_multiply(a, r, &f, sums);
    if (status != dnnl_success)
        return dnn_error(s, status, "a product", e);
    store_line(a, sums, a->queries * a->width, h->y);
    return 0;
}

static int attention_run(const struct step *s, struct run *r, struct error *e)
{
    const struct attention *a = s->state;
    int status = 0;
    omp_set_num_threads(1);
    for (size_t i = 0; i < a->heads && status == 0; i++) {
        const struct attention_head h = {.q = (const int8_t *)run_input(s, r, 0) + i * a->q.size,
                                         .k = (const int8_t *)run_input(s, r, 1) + i * a->k.size,
                                         .v = (const int8_t *)run_input(s, r, 2) + i * a->v.size,
                                         .y = (int8_t *)run_output(s, r, 0) +
                                              i * a->queries * a->width};
        if (a->vnni)
            attention_vnni_head(a, r, &h);
        else
            status = attention_run_head(s, r, &h, e);
    }
    return status;
}

const struct op op_attention = {.prepare = attention_prepare, .run = attention_run};
