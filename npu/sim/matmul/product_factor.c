// The right-hand factor of a product: B [k, n], its values unpacked once.
//
// K is cut into slices that never cross a group of scales and are short enough for their sums to be
// exact: 65536 products of int8 fit an int32, 1024 fit the 24 bits of a float's mantissa.
//
//   k 0      slice | slice | slice       n ->
//     |--- group ---|--- group ---|      scales[group][n], sums[slice][n]
//
// Tests: test_sim_matmul; the conformance programs of matmul.
#include "npu/sim/matmul/product_factor.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/matmul/product_data.h"
#include "npu/sim/simd/elements.h"

#define INT32_SLICE 65536 // products of 8-bit integers whose sum fits 32 bits
#define FLOAT_SLICE 1024  // and of whose sums floats hold each

void factor_done(struct factor *f)
{
    free(f->values);
    free(f->scales);
    free(f->zero_points);
    free(f->sums);
    *f = (struct factor){0};
}

// ---- scales ----

// Scales arrive as [column][group] and are stored as [group][column], so that those of one slice
// are contiguous. A single scale is for all.
static void take_scales(struct factor *f, struct bytes from)
{
    uint32_t n_groups = f->k / f->group;
    size_t n = from.size / MATMUL_SCALE_SIZE;
    const uint8_t *zero_points = from.data + n * sizeof(float);
    for (uint32_t g = 0; g < n_groups; g++)
        for (uint32_t c = 0; c < f->n; c++) {
            size_t i = n == 1 ? 0 : (size_t)c * n_groups + g, to = (size_t)g * f->n + c;
            memcpy(&f->scales[to], from.data + i * sizeof(float), sizeof(float));
            double size = fabs((double)f->scales[to]);
            f->largest_scale = size > f->largest_scale ? size : f->largest_scale;
            if (f->zero_points)
                f->zero_points[to] = (int32_t)read_le32(zero_points + i * sizeof(int32_t));
        }
}

static bool has_zero_points(struct bytes scales)
{
    size_t n = scales.size / MATMUL_SCALE_SIZE;
    for (size_t i = 0; i < n; i++)
        if (read_le32(scales.data + (n + i) * sizeof(int32_t)))
            return true;
    return false;
}

// ---- values ----

// One row of the normal layout: element i is in column i.
static void scale_along_n(const struct factor *f, uint32_t k, float *row)
{
    size_t from = (size_t)(k / f->group) * f->n;
    for (uint32_t c = 0; c < f->n; c++) {
        double zp = f->zero_points ? f->zero_points[from + c] : 0;
        row[c] = (float)((row[c] - zp) * (double)f->scales[from + c]);
    }
}

// One row of the transposed matrix: element i is in row i of B.
static void scale_along_k(const struct factor *f, uint32_t n, float *row)
{
    for (uint32_t k = 0; k < f->k; k++) {
        size_t at = (size_t)(k / f->group) * f->n + n;
        double zp = f->zero_points ? f->zero_points[at] : 0;
        row[k] = (float)((row[k] - zp) * (double)f->scales[at]);
    }
}

static void take_values(struct factor *f, const uint8_t *data)
{
    const struct matmul_matrix *x = &f->matrix;
    if (f->way == FACTOR_INT8) {
        product_read_int8(x, data, 0, x->rows, f->values);
        return;
    }
    product_read_floats(x, data, 0, x->rows, f->values);
    for (uint32_t r = 0; r < x->rows && f->way == FACTOR_REAL && x->type != TENSOR_FLOAT16; r++) {
        float *row = (float *)f->values + (size_t)r * x->columns;
        if (x->transposed)
            scale_along_k(f, r, row);
        else
            scale_along_n(f, r, row);
    }
}

static double factor_value(const struct factor *f, uint32_t k, uint32_t n)
{
    const void *at = factor_at(f, k, n);
    return f->way == FACTOR_INT8 ? (double)*(const int8_t *)at : (double)*(const float *)at;
}

static void take_sums(struct factor *f)
{
    double *row = f->sums;
    for (uint32_t k = 0, end; k < f->k; k = end, row += f->n) {
        end = k + factor_slice(f, k);
        for (uint32_t c = 0; c < f->n; c++)
            for (uint32_t i = k; i < end; i++)
                row[c] += factor_value(f, i, c);
    }
}

// ---- making ----

static size_t count_slices(const struct factor *f)
{
    size_t n = 0;
    for (uint32_t k = 0; k < f->k; k += factor_slice(f, k))
        n++;
    return n;
}

static int factor_allocate(struct factor *f, bool zero_points, bool sums, struct error *e)
{
    size_t values = (size_t)f->k * f->n, scales = (size_t)(f->k / f->group) * f->n;
    size_t n_sums = sums ? count_slices(f) * f->n : 0;
    f->values = malloc(values * (f->way == FACTOR_INT8 ? 1 : sizeof(float)));
    f->scales = malloc(scales * sizeof *f->scales);
    f->zero_points = zero_points ? malloc(scales * sizeof *f->zero_points) : NULL;
    f->sums = sums ? calloc(n_sums, sizeof *f->sums) : NULL;
    if (f->values && f->scales && !f->zero_points == !zero_points && !f->sums == !sums)
        return 0;
    factor_done(f);
    return error_no_memory(e, "B as it is multiplied", values);
}

// They are in the values.
static void forget_scales(struct factor *f)
{
    f->group = f->k;
    for (uint32_t c = 0; c < f->n; c++)
        f->scales[c] = 1;
    free(steal_ptr(f->zero_points));
}

int factor_make(struct factor *f, const struct matmul_kind *kind, const struct matmul_matrix *b,
                enum factor_way way, bool sums, const uint8_t *data, struct bytes scales,
                struct error *e)
{
    uint32_t k = b->transposed ? b->columns : b->rows, n = b->transposed ? b->rows : b->columns;
    bool groups = matmul_scope(kind->b_quant) == MATMUL_PER_GROUP;
    const uint32_t slices[] = {
        [FACTOR_INT8] = INT32_SLICE, [FACTOR_FLOATS] = FLOAT_SLICE, [FACTOR_REAL] = k};
    factor_done(f);
    *f = (struct factor){.matrix = *b,
                         .k = k,
                         .n = n,
                         .way = way,
                         .group = groups ? kind->group_size : k,
                         .slice = slices[way]};
    int r = factor_allocate(f, has_zero_points(scales), sums, e);
    if (r < 0)
        return r;
    take_scales(f, scales);
    take_values(f, data);
    if (sums)
        take_sums(f);
    if (way == FACTOR_REAL)
        forget_scales(f);
    return 0;
}
