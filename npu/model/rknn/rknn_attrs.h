// The attributes of a node, by their ONNX names, from wherever the file keeps them: the node's
// typed table, or its BSON.
#pragma once

#include "npu/model/rknn/rknn_file.h"
#include "tensor/custom_node.h"

/// Begins a node: nothing of it has been asked for.
void rknn_attrs_begin(const struct rknn_node *n);

/// Refuses the node if its file says something that has not been asked for since then, and of which
/// it is not known that it changes nothing.
int rknn_attrs_end(const struct rknn_node *n, struct error *e);

/// Up to `max` integers of the attribute (a scalar is one). Returns how many; 0: absent.
uint32_t rknn_attr_ints(const struct rknn_node *n, const char *name, int64_t *values, uint32_t max);
int64_t rknn_attr_int(const struct rknn_node *n, const char *name, int64_t absent);
double rknn_attr_float(const struct rknn_node *n, const char *name, double absent);

/// Whether the file says anything of the attribute in BSON.
bool rknn_attr_has(const struct rknn_node *n, const char *name);

/// Writes a terminated text of at most size-1 bytes; `absent` when there is none that fits.
void rknn_attr_text(const struct rknn_node *n, const char *name, const char *absent, char *ret,
                    size_t size);

/// All BSON attributes, in the file's order: integers as INT64, reals as FLOAT32, truth values as
/// BOOL, texts and bytes as UINT8, lists likewise (texts with a zero behind each). Others are left
/// out. Memory is the pool's.
int rknn_attrs_all(const struct rknn_node *n, struct pool *pool,
                   const struct custom_attribute **ret, uint32_t *ret_n, struct error *e);

/// The BSON attributes as a JSON object (new reference; NULL: no memory). Empty when there is none.
json_t *rknn_attrs_json(const struct rknn_node *n);

/// Checks that the node's BSON, where there is any, is well formed.
int rknn_attrs_check(const struct rknn_node *n, struct error *e);
