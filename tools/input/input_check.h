// Maps the values of -i to inputs and checks shapes. No file is read here.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "rknn_api.h"

/// Finds the file of each input from the values of -i: FILE (the next input that no other one
/// names, in order), INDEX=FILE or NAME=FILE. Fills paths[n], which point into `args`. Refuses
/// unknown names, inputs given twice, too many files and inputs without one.
int inputs_map(const char *const *args, size_t n_args, const rknn_tensor_attr *attrs, uint32_t n,
               const char **paths, struct error *e);

/// The input whose name, or else number, is key[length]. The words of a refusal begin with `option`
/// and the whole text that `key` begins.
int inputs_find(const char *option, const char *key, size_t length, const rknn_tensor_attr *attrs,
                uint32_t n, uint32_t *ret, struct error *e);

/// Whether an array of this shape holds the dims; those of 1 do not matter.
bool inputs_same_shape(const uint32_t *dims, size_t n_dims, const uint64_t *shape, size_t n);

/// Writes a shape as 1x3x4.
void inputs_shape_text(const uint64_t *shape, size_t n, char *ret, size_t size);

/// Checks that an array of this shape is the input in `layout`. Dims of 1 do not matter: they do
/// not change where an element lies. The words have both shapes, and `--layout nchw` if that is
/// what is missing.
int inputs_check_shape(const rknn_tensor_attr *attr, rknn_tensor_format layout,
                       const uint64_t *shape, size_t n_dims, struct error *e);

/// Channels that a picture for this input has (1, 3 or 4), and its size. Refuses inputs that are
/// not pictures.
int inputs_picture_size(const rknn_tensor_attr *attr, uint32_t *ret_width, uint32_t *ret_height,
                        uint32_t *ret_channels, struct error *e);
