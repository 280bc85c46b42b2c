// The description of a model (JSON of rknnd_describe_model) as a person reads it.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// Prints an object: plain members as lines, objects of plain members as one line, others indented,
/// lists of objects as tables, those with more than `max_rows` only by their length. It knows
/// nothing of models, so that new members show without a change here. Returns 0, or -1 when memory
/// ran out. Lines longer than `width` (0: no limit) are broken after commas.
int describe_print(json_t *object, FILE *out, size_t max_rows, size_t width);
