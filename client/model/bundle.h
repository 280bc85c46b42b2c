// ONNX models whose weights are in other files ("external data"): seen as one file that holds them.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct bundle;

/// Looks into the file of `size` bytes for weights in other files, which must lie in `folder` (an
/// open folder; plain names, no symbolic links). *ret is NULL when there are none, or when the file
/// is not an ONNX model. Takes no fd over; the model's must stay open. STATUS_MODEL_INVALID names
/// the tensor and the file.
int bundle_open(int fd, uint64_t size, int folder, struct bundle **ret, struct error *e);

/// Bytes of the one file.
uint64_t bundle_size(const struct bundle *b);

/// Reads [at, at + size) of it, which is inside.
int bundle_read(const struct bundle *b, uint64_t at, size_t size, uint8_t *to, struct error *e);

void bundle_free(struct bundle *b);
