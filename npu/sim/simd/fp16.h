// fp16 to float and back, many numbers at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Every stride-th of fp16 numbers, n of them, as contiguous floats. src need not be aligned; it
/// may overlap dst if its end is not before dst's.
void fp16_load(const void *src, int64_t stride, size_t n, float *dst);

/// Contiguous floats to every stride-th of fp16 numbers: rounded to nearest, ties to even.
void fp16_store(void *dst, int64_t stride, size_t n, const float *src);
