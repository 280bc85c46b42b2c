// Several samples at once.
#pragma once

#include "quant/model/quant_model.h"

/// A model that takes one sample becomes one that takes `batch` of them: the first dimension of its
/// inputs and outputs. Refuses, by name, inputs that have no such dimension of 1 and nodes that may
/// mix samples.
int quant_batch(struct quant_model *m, int64_t batch, struct error *e);
