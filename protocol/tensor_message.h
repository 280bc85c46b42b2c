// Inputs and outputs of a model as messages.
#pragma once

#include "protocol/message.h"
#include "tensor/tensor.h"

void tensor_io_to_message(const struct tensor_io *io, rknnd_TensorIo *ret);

/// Checks everything: a peer that gives wrong sizes is refused here, once.
int tensor_io_from_message(const rknnd_TensorIo *m, struct tensor_io *ret, struct error *e);

void tensor_attr_to_message(const struct tensor_attr *a, rknnd_TensorAttr *ret);

/// One view of a tensor, checked; `what` names it in errors.
int tensor_attr_from_message(const rknnd_TensorAttr *m, const char *what, struct tensor_attr *ret,
                             struct error *e);

/// `n` tensors as the payload of ContextInfo: malloc'ed, the caller frees. NULL: out of memory.
uint8_t *tensor_list_encode(const struct tensor_io *const *tensors, size_t n, size_t *ret_size);

/// Takes exactly `n` (at most 4096) tensors from a ContextInfo payload. *ret is malloc'ed.
int tensor_list_decode(struct bytes payload, size_t n, struct tensor_io **ret, struct error *e);
