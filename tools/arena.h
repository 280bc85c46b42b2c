// A picture of a model's internal memory over time, in text.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// One line for each node of the description (JSON of rknnd_describe_model, "arena" and
/// "layer_estimates"): what is in use while it computes, and where. In at most `width` columns (0:
/// 100). Inputs and outputs of the model, which have memory of their own, are not in it.
void arena_print(json_t *model, FILE *out, size_t width);
