// Names that a file has besides those of its graph's tensors: what is made anew must have none of
// them. Nodes and values have namespaces of their own, and so have bodies (of If, Loop, Scan) that
// do not see each other; a name that is nowhere is right in all of them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "quant/model/quant_pool.h"
#include "quant_onnx.pb-c.h"

struct quant_taken {
    const char **slots; // a hash table; NULL: free
    size_t n, n_slots;
};

/// Names of nodes, of values that the file tells types of, and of all that is in bodies, in the
/// pool. Refuses bodies that cannot be read, or lie too deep in each other.
int quant_taken_make(struct quant_taken *t, struct quant_pool *p, const Quant__Graph *g,
                     struct error *e);
bool quant_taken_has(const struct quant_taken *t, const char *name);

uint32_t quant_name_hash(const char *name);
