// Looks into a run: times of layers, and their tensors.
#pragma once

#include "npu/open/open_context.h"

/// Forgets the layers of the run before.
void open_layers_begin(struct npu_context *c);

/// A node has taken so long; of a batch, the times of all inputs are added.
int open_layers_note(struct npu_context *c, uint32_t node, const struct rknn_schedule *schedule,
                     uint64_t us, struct error *e);

/// Shows what a node has computed.
int open_layers_show(struct npu_context *c, uint32_t node, struct npu_tap *tap, struct error *e);
