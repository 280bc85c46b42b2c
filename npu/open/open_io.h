// Tensors between a job and the NPU's memory.
#pragma once

#include "npu/open/open_context.h"

/// Input i of a job: its part `item` of the batch.
int open_put_input(struct npu_context *c, uint32_t i, uint32_t item, const struct npu_input *input,
                   struct error *e);

/// Output i. `whole` takes all of the batch in the model's own form, packed, from item to item, and
/// open_give_output() hands it over.
int open_take_output(struct npu_context *c, uint32_t i, uint32_t item, uint8_t *whole,
                     struct error *e);
int open_give_output(const struct npu_model *m, uint32_t i, const uint8_t *whole,
                     const struct npu_output *output, struct error *e);

/// A tensor that is in the arena, packed; nhwc: so, else in the order of its dimensions.
int open_read_tensor(struct npu_context *c, uint32_t tensor, bool nhwc, void *dense,
                     struct error *e);
int open_write_tensor(struct npu_context *c, uint32_t tensor, bool nhwc, const void *dense,
                      struct error *e);
