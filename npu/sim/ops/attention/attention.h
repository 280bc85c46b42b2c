// Attention in integers: what op_attention.c, which has the formula, shares with its kernel for
// AVX512-VNNI and AVX512-VBMI (attention_vnni.c).
#pragma once

#include "npu/sim/exec/step.h"

#define ATTENTION_STEPS 256 // of 8 bits

// A matrix as a head's tensor holds it: [rows][columns], or transposed.
struct matrix {
    bool transposed;
    size_t size; // bytes of a head
    int32_t zp;
};

struct attention_vnni;

struct attention {
    size_t heads, depth, width, queries, keys; // H, D, E, N, M
    struct matrix q, k, v;
    int32_t zp;    // of the output
    bool integers; // oneDNN's product of int8
    int8_t query[ATTENTION_STEPS];
    // e^(step * difference from the top), the top's at ATTENTION_STEPS - 1
    double powers[2 * ATTENTION_STEPS];
    double scale, to_product, zero, to_weight, to_output;
    bool in_floats;                                         // products
    uint64_t queries_at, sums_at, weights_at, floats_at[2]; // scratch
    struct attention_vnni *vnni; // NULL: heads are not computed by attention_vnni_head()
};

// int8 [rows][inner] and [inner][columns], either transposed; the left one has no zero point.
struct attention_factors {
    const int8_t *left, *right;
    bool turned[2]; // left, right
    size_t rows, inner, columns;
    int32_t zp; // of the right one
};

/// The sums of their products, without the zero point, with NEON. `left` and `right`: as much
/// memory as both take as floats. False: not here, or not of so few products.
bool attention_neon_multiply(const struct attention_factors *f, int8_t *left, int8_t *right,
                             int32_t *sums);

// A head, as its tensors have it.
struct attention_head {
    const int8_t *q, *k, *v;
    int8_t *y;
};

/// The weights of a query's products, which are distances from the lowest one; both take the same
/// memory, one after the other.
void attention_weigh(const struct attention *a, int8_t *weights);

/// The outputs of n sums.
void attention_store(const struct attention *a, const int32_t *sums, size_t n, int8_t *to);

/// Whether the functions below may be called.
bool attention_vnni_fits(const struct attention *a);

/// Sets a->vnni.
int attention_vnni_prepare(struct step *s, struct attention *a, struct error *e);

/// Computes a head.
void attention_vnni_head(const struct attention *a, struct run *r, const struct attention_head *h);
