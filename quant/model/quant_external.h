// Weights in other files ("external data" of ONNX).
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "quant/model/quant_pool.h"
#include "quant_onnx.pb-c.h"

// Files that are mapped; NULL: none.
struct quant_mapping;

/// Maps copies (quant_nameless.h) of the files that weights of a graph lie in, below `folder`, and
/// points the weights at them: from then on they have raw_data as all others have. Those of graphs
/// inside its nodes go to the pool. Adds to `list` what quant_external_unmap() is to end, also
/// after a failure; it is memory of the pool. Ways out of the folder are refused, and symbolic
/// links.
int quant_external_map(const Quant__Graph *g, struct quant_pool *pool, struct quant_mapping **list,
                       const char *folder, struct error *e);
void quant_external_unmap(const struct quant_mapping *list);

/// Whether `data` lies in one of the files.
bool quant_external_is_mapped(const struct quant_mapping *list, const void *data);

/// Calls `visit` with the location of each weight that lies in another file, as the model says it,
/// until it fails; nothing is mapped or checked. Graphs inside nodes are read into the pool.
typedef int quant_external_visit(void *user, const char *location, struct error *e);
int quant_external_each(const Quant__Graph *g, struct quant_pool *pool, quant_external_visit *visit,
                        void *user, struct error *e);
