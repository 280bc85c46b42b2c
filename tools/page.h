// The page of `rknnctl report`: report.html with the data in it.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// Returns 0, or -1 when memory ran out. What happens to `out` is the caller's to check.
int page_write(json_t *data, FILE *out);
