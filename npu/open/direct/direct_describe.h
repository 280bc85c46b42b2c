// Which inputs and outputs can stay in dma-bufs, in which forms, for people.
#pragma once

#include <jansson.h>

#include "npu/open/open_model.h"

/// "in_place" of a description (PROTOCOL.md, MODEL_DESCRIBE). NULL: no memory.
json_t *direct_describe(const struct npu_model *m);
