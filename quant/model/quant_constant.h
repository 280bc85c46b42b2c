// Elements of constants.
#pragma once

#include "quant/model/quant_model.h"

#define QUANT_MAX_DIMS 16

/// Elements that the dims say; 0: none, or more than there can be.
size_t quant_constant_count(const Quant__Tensor *t);

/// A float tensor's elements, malloc'ed: quant_constant_count() of them. Refuses other types, and
/// numbers that are not finite.
int quant_constant_floats(const struct quant_model *m, const Quant__Tensor *t, float **ret,
                          struct error *e);

/// Up to `room` elements of an int64 or int32 tensor; false: it is none, or has more.
bool quant_constant_ints(const Quant__Tensor *t, int64_t *ret, size_t room, size_t *ret_n);

/// What lies in another file comes into this one.
int quant_constant_bring_in(struct quant_model *m, Quant__Tensor *t, struct error *e);
