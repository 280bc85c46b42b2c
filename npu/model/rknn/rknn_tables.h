// The parts of rknn_file_open(): tensors, nodes, tasks. Only rknn_file_open.c calls these.
#pragma once

#include "npu/model/rknn/rknn_file.h"

int rknn_read_tensors(struct rknn_file *f, const struct fb_table *graph,
                      const struct fb_list *buffers, struct error *e);
int rknn_read_nodes(struct rknn_file *f, const struct fb_table *graph, struct error *e);

/// Sorts out which register commands belong to which node, for one core.
int rknn_read_tasks(struct rknn_file *f, struct error *e);

/// Tensor indices of a node, checked. -1 is allowed.
int rknn_read_indices(struct rknn_file *f, struct bytes b, int32_t **ret, uint32_t *ret_n,
                      struct error *e);

/// Which register commands take the address of which tensor. Container 6 alone says it here.
int rknn_read_relocations(struct rknn_file *f, const struct fb_table *graph, struct error *e);
