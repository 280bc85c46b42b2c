// Products of matrices as the SDK guide describes them, written down plainly: which ones there are,
// where each element lies, and what comes out. Shares nothing with the code under test.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plain_number { PLAIN_F32, PLAIN_F16, PLAIN_I8, PLAIN_I4, PLAIN_I16, PLAIN_I32 };

// Names of layouts and kinds are the numbers of rknn_matmul_api.h.
struct plain_case {
    const char *chip; // "rk3588"
    int type, b_layout, ac_layout, b_quant, ac_quant;
    uint32_t group_size;
    uint32_t m, k, n;
};

/// Whether the chip has this type and this layout of B (table 3-13 and 3.5.4.1).
bool plain_offered(const char *chip, int type, int b_layout);

enum plain_number plain_number(int type, char matrix); // of 'A', 'B', 'C'
const char *plain_type_name(int type);

/// Where element (row, column) of a matrix is (table 3-12, K segments, padding of none).
uint64_t plain_at(const struct plain_case *p, char matrix, uint32_t row, uint32_t column);
/// Dimensions as rknn_matmul_io_attr gives them; returns how many.
uint32_t plain_dims(const struct plain_case *p, char matrix, uint32_t ret[4]);
size_t plain_bytes(const struct plain_case *p, char matrix);

double plain_get(enum plain_number number, const void *data, uint64_t i);
void plain_set(enum plain_number number, void *data, uint64_t i, double value);

// Real value = (stored - zp) * scale. Scales of B: n_scales, all groups of a column first.
struct plain_quant {
    float a_scale, c_scale;
    int32_t a_zp, c_zp;
    bool c_set;
    uint32_t n_scales;
    float *scales;
    int32_t *zps;
};

uint32_t plain_n_scales(const struct plain_case *p);

/// Random matrices in the program's layouts (calloc'ed) and, if `quantized`, random parameters.
struct plain_problem {
    struct plain_case which;
    struct plain_quant quant;
    uint8_t *a, *b;
};

void plain_problem_make(struct plain_problem *x, const struct plain_case *which, bool quantized);
void plain_problem_done(struct plain_problem *x);

/// Compares C with what comes out of A and B: integers exactly (either neighbour where the exact
/// value lies within 1e-6 of the middle), floats to their precision. On a difference prints it.
bool plain_check(const struct plain_problem *x, const void *c);

/// The same for the last row and each `step`-th one: of large products all of them take minutes.
bool plain_check_some(const struct plain_problem *x, const void *c, uint32_t step);

/// Calls `each` for every chip, type, layout and kind of quantization that there is.
void plain_for_each(void (*each)(const struct plain_case *p, void *owner), void *owner);
