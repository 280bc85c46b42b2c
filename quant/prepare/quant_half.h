// float16 models.
#pragma once

#include "quant/model/quant_model.h"

/// Whatever a model has in float16 (weights, inputs, outputs, casts) becomes float32, in which it
/// is calibrated: what quantization starts from are real numbers. *ret: whether there was anything.
/// Fails where subgraphs would have to change, too.
int quant_widen_halves(struct quant_model *m, bool *ret, struct error *e);
