// Opening contexts. Apart from context.h because it knows what contexts have inside: callbacks,
// memories, products of matrices, all of which use contexts themselves.
#pragma once

#include "client/api/context.h"

/// What a context is made of: the answer to ContextOpen or ContextDup on `c`. Takes `c` (also on
/// failure) and gives the context a handle.
int context_open(struct connection *c, uint16_t type, const void *message, uint32_t flags,
                 rknn_context *ret, struct error *e);
