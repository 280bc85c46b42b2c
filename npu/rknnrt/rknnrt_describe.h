// What the runtime says of a model, as JSON.
#pragma once

#include "npu/npu.h"

/// `info` NULL: the runtime does not take the file, for the reason in `why`. *ret is malloc'ed, the
/// caller frees it.
int describe(const struct bytes *file, const struct npu_model_info *info, const char *why,
             char **ret, struct error *e);
