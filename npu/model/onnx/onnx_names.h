// Which tensor a name of an ONNX file stands for. A graph inside a node has a table of its own,
// which sees the names of the graph around it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct onnx_names;

/// An empty table; names are not copied. `around` (NULL: none) must outlive it.
int onnx_names_new(struct onnx_names **ret, const struct onnx_names *around, struct error *e);
void onnx_names_free(struct onnx_names *names);

/// The tensor, also of the tables around; -1: the name is not known.
int32_t onnx_names_find(const struct onnx_names *names, const char *name);

/// Whether this very table has the name.
bool onnx_names_has(const struct onnx_names *names, const char *name);

/// Sets or changes.
int onnx_names_set(struct onnx_names *names, const char *name, int32_t tensor, struct error *e);
