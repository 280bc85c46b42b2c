// The choice of cores.
#pragma once

#include "client/api/context.h"

/// rknn_set_core_mask() of an entered context.
int cores_set_mask(struct context *c, uint32_t mask, struct error *e);
