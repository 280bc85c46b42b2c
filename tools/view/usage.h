// Who uses a server's device and how much, as tables, JSON or Prometheus's text format.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "rknnd.h"

/// Cores, clients that have contexts, and models, with their rates between two looks; `before`
/// NULL: since the server began. Lines fit `width` columns (0: no limit). Returns 0, or -1 when
/// memory ran out.
int usage_print(const rknnd_stats *before, const rknnd_stats *now, FILE *out, size_t width);

/// Everything. NULL: out of memory.
json_t *usage_json(const rknnd_stats *s);
