// What the runtime says of an open context. Nothing of it is trusted: what cannot be is refused
// with STATUS_MODEL_INVALID.
#pragma once

#include "base/bytes.h"
#include "npu/rknnrt/runtime.h"
#include "tensor/tensor.h"

#define QUERY_MAX_TENSORS 128 // inputs or outputs of a model; the bound of rknnd.proto

/// rknn_query(); `what` names the command in words.
int query(const struct runtime *r, rknn_context c, rknn_query_cmd cmd, const char *what, void *info,
          uint32_t size, struct error *e);

/// Numbers of inputs and outputs, at least one of each and at most QUERY_MAX_TENSORS.
int query_counts(const struct runtime *r, rknn_context c, uint32_t *ret_inputs,
                 uint32_t *ret_outputs, struct error *e);

/// Input or output `index` in all its views, of the shapes that are set (`current`) or of a model
/// whose shapes are fixed.
int query_io(const struct runtime *r, rknn_context c, bool output, uint32_t index, bool current,
             struct tensor_io *ret, struct error *e);

/// Empty where the model has none, or the runtime does not know the question.
void query_custom_string(const struct runtime *r, rknn_context c, rknn_custom_string *ret);

/// The table of the layers of the last run. The runtime's: until its next query.
int query_perf(const struct runtime *r, rknn_context c, struct bytes *ret, struct error *e);

/// Runtimes before 1.4.0 fill only the first two fields.
int query_memory(const struct runtime *r, rknn_context c, rknn_mem_size *ret, struct error *e);

/// An attribute as the runtime's functions take it.
void query_attr_back(const struct tensor_attr *a, uint32_t index, rknn_tensor_attr *ret);
