// Stored tensors as the 64-bit numbers that reference operators work on, and back.
#pragma once

#include "npu/sim/ref/ref.h"

/// Whether a tensor is worked on as the real numbers that its integers represent.
bool ref_is_dequantized(const struct graph_node *n, const struct graph_tensor *t);

/// Whether as real numbers at all.
bool ref_is_real(const struct graph_node *n, const struct graph_tensor *t);

/// From the stored order to that of the dimensions, t->n_elems numbers. src need not be aligned, as
/// constants in files are not.
void ref_load(const struct graph_node *n, const struct graph_tensor *t, const uint8_t *src,
              union ref_value *dst);

/// And back. Integers wrap modulo the type's range, reals are rounded to floats or saturate.
void ref_store(const struct graph_node *n, const struct graph_tensor *t, uint8_t *dst,
               const union ref_value *src);
