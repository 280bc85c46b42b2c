// The right-hand factor of a product, B, in the form in which it is multiplied: made once for many
// runs.
#pragma once

#include "tensor/matmul_model.h"

enum factor_way {
    FACTOR_INT8,   // products of 8-bit integers, summed in 32 bits
    FACTOR_FLOATS, // integers as floats, in slices so short that sums are exact
    FACTOR_REAL,   // A is real: scales and zero points are in the values
};

struct factor {
    uint64_t version; // matmul_run.b_version of what it was made from; 0: nothing
    struct matmul_matrix matrix;
    uint32_t k, n;
    enum factor_way way;
    void *values;        // int8_t or float, in B's own order: matrix.rows x matrix.columns
    uint32_t group;      // elements of a column that share a scale
    uint32_t slice;      // longest slice along K; no slice crosses a group
    float *scales;       // k / group rows of n
    double *zero_points; // likewise; NULL: all are 0
    double *sums;        // of each slice, a row of n: what its columns add up to; NULL: not needed
    double largest_scale;
};

void factor_done(struct factor *f);

/// Makes it from B (at `data`) and its scales: MATMUL_SCALE_SIZE bytes each; 1 or
/// matmul_n_scales(). `sums`: also makes the sums. On failure it is empty.
int factor_make(struct factor *f, const struct matmul_kind *kind, const struct matmul_matrix *b,
                enum factor_way way, bool sums, const uint8_t *data, struct bytes scales,
                struct error *e);

/// Elements of the slice that starts at k.
static inline uint32_t factor_slice(const struct factor *f, uint32_t k)
{
    uint32_t left = f->group - k % f->group;
    return left < f->slice ? left : f->slice;
}

/// Address of the value at (k, n).
static inline const void *factor_at(const struct factor *f, uint32_t k, uint32_t n)
{
    size_t i = f->matrix.transposed ? (size_t)n * f->k + k : (size_t)k * f->n + n;
    return f->way == FACTOR_INT8 ? (const void *)((const int8_t *)f->values + i)
                                 : (const void *)((const float *)f->values + i);
}
