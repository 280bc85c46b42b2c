// Elements of constants.
#pragma once

#include "quant/model/quant_model.h"

/// A float tensor's elements, where they lie: quant_constant_count() of them. Refuses other types,
/// and numbers that are not finite.
int quant_constant_floats(const Quant__Tensor *t, const float **ret, struct error *e);

/// Whether some elements of a float tensor are infinite, as in causal masks, and none is NaN.
bool quant_constant_is_infinite(const Quant__Tensor *t);

/// Up to `room` elements of an int64 or int32 tensor; false: it is none, or has more.
bool quant_constant_ints(const Quant__Tensor *t, int64_t *ret, size_t room, size_t *ret_n);
