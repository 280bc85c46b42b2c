// What layers did, as the payload of a ProfileReply.
#pragma once

#include "npu/npu.h"
#include "protocol/message.h"

/// `n` layers as delimited Layer messages: malloc'ed, the caller frees. NULL: out of memory.
uint8_t *layer_list_encode(const struct npu_layer *layers, size_t n, size_t *ret_size);
