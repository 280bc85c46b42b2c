// The page of `rknnctl report`: what tools/report makes, with the data in it.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// Returns 0, or -1 when memory or random numbers ran out. What happens to `out` is the caller's to
/// check.
int page_write(json_t *data, FILE *out);
