// Which tensor a name of an ONNX file stands for.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct onnx_names;

/// A table for at most `n` names; they are not copied.
int onnx_names_new(struct onnx_names **ret, uint32_t n, struct error *e);
void onnx_names_free(struct onnx_names *names);

/// The tensor; -1: the name is not known.
int32_t onnx_names_find(const struct onnx_names *names, const char *name);

/// Sets or changes. No more names than announced.
void onnx_names_set(struct onnx_names *names, const char *name, int32_t tensor);
