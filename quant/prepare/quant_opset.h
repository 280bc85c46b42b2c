// Operator sets.
#pragma once

#include "quant/model/quant_model.h"

#define QUANT_OPSET 13 // the first in which DequantizeLinear has one scale for each channel

/// Raises a model of operator set 7 to 12 to 13: attributes that became inputs since, and other
/// defaults, with the same results. Refuses operators that are not known to be the same there.
int quant_opset_raise(struct quant_model *m, struct error *e);
