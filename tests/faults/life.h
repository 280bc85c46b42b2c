// What the lives of life.c share.
#pragma once

#include <stddef.h>

/// Says what failed, with the library's words: -1; -2 if it has none.
int life_failed(const char *what, int r);

/// A number for what these bytes are.
unsigned life_sum(const void *data, size_t size);

/// The other life: what came to the library later, on models that test_faults.py has written into a
/// folder. 0, or as life_failed().
int life_newer(const char *folder);
