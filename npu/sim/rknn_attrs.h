// The attributes of a node, by their ONNX names, from wherever the file keeps them: the node's
// typed table, or its BSON.
#pragma once

#include "npu/sim/rknn_file.h"

/// Up to `max` integers of the attribute (a scalar is one). Returns how many; 0: absent.
uint32_t rknn_attr_ints(const struct rknn_node *n, const char *name, int64_t *values, uint32_t max);
int64_t rknn_attr_int(const struct rknn_node *n, const char *name, int64_t absent);
double rknn_attr_float(const struct rknn_node *n, const char *name, double absent);

/// Writes a terminated text of at most size-1 bytes; `absent` when there is none that fits.
void rknn_attr_text(const struct rknn_node *n, const char *name, const char *absent, char *ret,
                    size_t size);

/// The BSON attributes as a JSON object (new reference; NULL: no memory). Empty when there is none.
json_t *rknn_attrs_json(const struct rknn_node *n);

/// Checks that the node's BSON, where there is any, is well formed.
int rknn_attrs_check(const struct rknn_node *n, struct error *e);
