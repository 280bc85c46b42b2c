// A picture of a model's internal memory over time, in text.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// One line for each step of the description (JSON of rknnd_describe_model, "arena" and "steps"):
/// what is in use while it computes, and where. `width` columns (0: 100), or a few more on a very
/// narrow terminal. Tensors with memory of their own, like inputs and outputs on the chip, are not
/// part of the arena.
void arena_print(json_t *model, FILE *out, size_t width);

/// CSV: for each step its name and the bytes in use.
void arena_csv(json_t *model, FILE *out);
