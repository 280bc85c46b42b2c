// Structs of rknnd.h, which begin with their size, between this library and programs that were
// built with another version of it.
#pragma once

#include "base/error.h"
#include "rknnd.h"

/// Fills a program's struct, `size` bytes of `ours`; what it has beyond them becomes 0.
int sized_give(void *theirs, const void *ours, size_t size, struct error *e);

/// Takes options of a program's. Fails if something is set that this library does not know; what
/// the program does not know becomes 0.
int sized_take(void *ours, size_t size, const void *theirs, struct error *e);

/// An array of n structs of `stride` bytes as a list, in which each has its size.
rknnd_list sized_list(void *items, size_t n, size_t stride);

/// A list of n structs and, behind them, `extra` bytes (*ret_extra, unless NULL) in one malloc'ed
/// block; the structs are 0 but for their sizes. NULL: out of memory.
rknnd_list *sized_list_new(size_t n, size_t stride, size_t extra, void **ret_extra);
