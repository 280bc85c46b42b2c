// Half precision, many numbers at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// n halves, which need not be aligned, one in `stride`, as floats that follow each other. src may
/// lie behind dst in the same memory (its end not before dst's).
void fp16_load(const void *src, int64_t stride, size_t n, float *dst);

/// The other way. Rounded to nearest, ties to even.
void fp16_store(void *dst, int64_t stride, size_t n, const float *src);
