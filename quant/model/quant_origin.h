// The files that a model is read from, which must not be lost by what is made of it.
#pragma once

#include "base/error.h"

/// STATUS_PARAM_INVALID where `output`, or `output`.data, in which weights of what is written may
/// lie, is the model's file or one that its weights lie in. 0 for a model that cannot be read: who
/// opens it says why.
int quant_origin_check(const char *model, const char *output, struct error *e);
