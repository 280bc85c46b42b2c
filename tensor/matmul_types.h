// Products of matrices, C = A x B, as rknn_matmul_api.h knows them: which ones a chip offers, and
// how their matrices lie in memory. Facts of chips are those of the SDK guide, tables 3-12 to 3-14.
#pragma once

#include "tensor/tensor.h"

enum matmul_layout {
    MATMUL_NORMAL,     // rows of the matrix
    MATMUL_NATIVE,     // blocks as the chip reads and writes them
    MATMUL_TRANSPOSED, // rows of the transposed matrix; B only
};

enum matmul_scope { MATMUL_PER_LAYER, MATMUL_PER_CHANNEL, MATMUL_PER_GROUP };

// rknn_matmul_quant_type: a scope, and whether zero points may differ from 0.
static inline enum matmul_scope matmul_scope(uint32_t quant)
{
    return (enum matmul_scope)(quant / 2);
}

static inline bool matmul_has_zero_points(uint32_t quant)
{
    return quant % 2;
}

struct matmul_shape {
    uint32_t m, k, n;
};

// What a program asks for. Numbers are those of rknn_matmul_api.h and, until matmul_place() has
// seen them, anything.
struct matmul_kind {
    uint32_t type; // rknn_matmul_type
    uint32_t b_layout, ac_layout;
    uint32_t b_quant, ac_quant;
    uint32_t group_size; // elements of a column of B; with MATMUL_PER_GROUP
};

// A matrix in memory: elements (row, column) for row < rows, column < columns, without gaps.
struct matmul_matrix {
    const char *name; // "A", "B", "C"
    enum tensor_type type;
    // Of what is stored: B is stored as N rows of K unless its layout is MATMUL_NORMAL.
    uint32_t rows, columns;
    bool transposed;                    // rows and columns are those of the transposed matrix
    uint32_t block_rows, block_columns; // a block's elements lie together, row by row
    uint32_t segment;                   // columns; each segment is stored as a matrix of its own
    uint32_t n_dims, dims[4];           // as programs are told
    uint32_t size;                      // bytes
};

/// Checks a product against what the chip ("rk3588"; "any" counts as that) offers and fills A, B
/// and C. STATUS_PARAM_INVALID with words that give the rule.
int matmul_place(const struct matmul_kind *kind, const struct matmul_shape *shape, const char *chip,
                 struct matmul_matrix ret[3], struct error *e);

/// Where an element is, counted in elements. The next ones of its row, up to the end of its block,
/// follow it.
static inline uint64_t matmul_at(const struct matmul_matrix *x, uint32_t row, uint32_t column)
{
    uint32_t in = column % x->segment, start = column - in, left = x->columns - start;
    uint32_t across = (left < x->segment ? left : x->segment) / x->block_columns;
    uint64_t block = (uint64_t)(row / x->block_rows) * across + in / x->block_columns;
    return (uint64_t)start * x->rows +
           (block * x->block_rows + row % x->block_rows) * x->block_columns + in % x->block_columns;
}

/// An element of packed 4-bit integers: the even ones are in the low halves of bytes.
static inline int8_t matmul_int4(const uint8_t *data, uint64_t i)
{
    return (int8_t)((int8_t)(i % 2 ? data[i / 2] : data[i / 2] << 4) >> 4);
}

/// Scales of B: 1, N, or N x K / group_size (all groups of a column, then the next column).
uint64_t matmul_n_scales(const struct matmul_kind *kind, const struct matmul_shape *shape);
