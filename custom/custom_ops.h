// The operators that are at work in one context: which nodes of its model others compute, and how.
#pragma once

#include "custom/custom_op.h"

struct custom_ops {
    const struct custom_node *nodes; // of the model
    uint32_t n_nodes;
    struct custom_op **ops; // by node; NULL: the device's, or nobody's
    struct opencl *opencl;  // made for the first operator that needs it
};

/// `nodes` must outlive the set.
int custom_ops_init(struct custom_ops *s, const struct custom_node *nodes, uint32_t n_nodes,
                    struct error *e);
void custom_ops_done(struct custom_ops *s);

/// Puts an implementation to work on all nodes of its type but those that its init() hands back,
/// and those that have one if it may not `replace`. Returns how many nodes of the type there are.
/// After a failure none of them is its.
int custom_ops_add(struct custom_ops *s, const rknn_custom_op *op, bool replace, struct error *e);

bool custom_ops_empty(const struct custom_ops *s);

/// The nodes that have an operator.
struct custom_set custom_ops_nodes(const struct custom_ops *s);
