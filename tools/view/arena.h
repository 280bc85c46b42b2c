// A picture of a model's internal memory over time, in text.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// One line for each step of the description (JSON of rknnd_describe_model, "arena" and "steps"):
/// what is in use while it computes, and where. In `width` columns (0: 100), or a few more on a
/// very narrow terminal. What has memory of its own, as inputs and outputs on the chip, is not in
/// it.
void arena_print(json_t *model, FILE *out, size_t width);

/// A line for each step, for a spreadsheet: its name and the bytes that are in use.
void arena_csv(json_t *model, FILE *out);
