// Nodes that only move bytes, held against what their tasks move.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// Of a node that moves what it takes (Concat, Reshape, Split, Transpose and the like): follows
/// bytes of each output back through the node's tasks, to those of its inputs that `out` has there.
/// Others are left alone. STATUS_MODEL_INVALID: some byte comes from elsewhere, or from nowhere, or
/// the register's name of a task of which it is not known.
int rknn_moves_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct graph_node *out, struct error *e);

/// The working memory of a node whose tasks interpolate: a copy of its input with one more line
/// and column at each edge; -1: there is none.
int32_t rknn_moves_edged(const struct rknn_file *f, const struct rknn_node *n, int32_t input);
