// An implementation of an operator (rknn_custom_op, of a program or a plugin) at work on one node:
// its callbacks and the memory that they see.
#pragma once

#include "base/error.h"
#include "rknn_custom_op.h"
#include "tensor/custom_node.h"

struct opencl;
struct custom_op;

/// Checks what a program or plugin registers, before any of its functions is called.
int custom_op_check(const rknn_custom_op *op, struct error *e);

/// Makes memory for the node's tensors and calls init(). `node` must outlive it, and `cl` (NULL for
/// the CPU), too; *op is copied. Returns 0; 1 when init() hands the node back to the device, and
/// then there is no *ret; or the negative answer of init(), with an error.
int custom_op_new(const rknn_custom_op *op, const struct custom_node *node, struct opencl *cl,
                  struct custom_op **ret, struct error *e);

/// Calls destroy(). NULL is fine.
void custom_op_free(struct custom_op *o);

/// Where each input is to be put and each output will be: n_inputs + n_outputs of the node, in its
/// own types (an operator for the GPU sees int64 as float32; the outputs that it writes are rounded
/// to the nearest).
void *const *custom_op_tensors(const struct custom_op *o);

/// Calls prepare() and compute(); the error says which of them failed with what. One thread at a
/// time.
int custom_op_run(struct custom_op *o, struct error *e);
