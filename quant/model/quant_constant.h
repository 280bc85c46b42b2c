// Elements of constants.
#pragma once

#include "quant/model/quant_model.h"

/// A float tensor's elements, malloc'ed: quant_constant_count() of them. Refuses other types, and
/// numbers that are not finite.
int quant_constant_floats(const Quant__Tensor *t, float **ret, struct error *e);

/// Up to `room` elements of an int64 or int32 tensor; false: it is none, or has more.
bool quant_constant_ints(const Quant__Tensor *t, int64_t *ret, size_t room, size_t *ret_n);
