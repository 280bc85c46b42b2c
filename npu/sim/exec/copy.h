// Copies from one tensor (or a part of it) into another, in any order, with conversion of the
// stored form where the two differ. Concat, Split, Slice, Transpose, Reshape, Cast, changes of
// layout and the way to and from plain floats (plain.h) are all such copies:
//
//   to[to_at + Σ i_d * strides[0][d]] = convert(from[from_at + Σ i_d * strides[1][d]])
#pragma once

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/step.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/int8_line/int8_line.h"

struct copy {
    struct nd nd; // operand 0: to, operand 1: from
    struct element_form to, from;
    size_t to_size, from_size; // bytes of an element
    int64_t to_at, from_at;    // first elements
    bool same;                 // the stored form is the same
    bool mapped;               // by a table of 8-bit numbers
    int8_t table[256];
    bool in_line; // … which is that of a line
    struct int8_line line;
};

/// Sets the forms; the caller then sets nd (simplified) and the first elements.
void copy_init(struct copy *c, const struct graph_tensor *to, const struct graph_tensor *from);

/// As copy_init(), for all elements of `to`, from those of `from` at the same indices (broadcast).
void copy_init_whole(struct copy *c, const struct graph_tensor *to,
                     const struct graph_tensor *from);

/// Between int8 as the table says, for a copy whose forms are set.
void copy_set_table(struct copy *c, const int8_t table[256]);

void copy_run(const struct copy *c, void *to, const void *from);
