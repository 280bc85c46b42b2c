// What a model is, on one screen.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "rknnd.h"

/// Prints the summary of a description (JSON of rknnd_describe_model): where the file comes from,
/// inputs and outputs, work, memory, time on its chip, what is on the CPU, and whether `server`
/// runs it. About 20 lines of `width` columns (0: no limit); of many inputs or outputs the first
/// ones. What the description lacks has no line. Returns 0, or -1 when memory ran out.
int summary_print(json_t *model, const rknnd_server_info *server, FILE *out, size_t width);
