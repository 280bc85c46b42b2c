// What the DPU makes of tensors in memory, byte by byte, without a convolution: copies from one
// scale to another, activations by table.
//
//     tensor ---> BS: + , * , shift ---> BN: * , + , shift ---> table ---> OUT_CVT
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// How the node's tasks bring `from` to `to`, which files say by addresses. *ret: from g's pool;
/// NULL: no task does, which is refused in container 0x1004; in others tensors may share memory.
/// STATUS_MODEL_INVALID, with the register's name: what one holds is not known, or tasks differ.
int rknn_chain(const struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
               int32_t from, int32_t to, struct graph *g, const struct graph_chain **ret,
               struct error *e);

/// The same, between ends[0] and ends[1], where BN may add an int32 of each channel's own to what
/// *ret says: *added has these; empty: it does not.
/// *ret is NULL, too, where no task does it.
int rknn_chain_with(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_node *n, const int32_t ends[2], struct graph *g,
                    const struct graph_chain **ret, struct bytes *added, struct error *e);

/// What becomes of each stored byte, by its bits. Not of a chain with a table.
void rknn_chain_map(const struct graph_chain *c, int8_t map[256]);

/// Of a node that moves bytes: whether all its tasks that work on bytes in memory leave each value
/// as it is. STATUS_MODEL_INVALID: one does not, or what it does is not known.
int rknn_chain_copies(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct graph *g, struct error *e);
