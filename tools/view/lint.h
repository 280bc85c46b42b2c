// What in a model costs time, or is wrong, and could be other in the model it is converted from.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// What there is to say of a description (JSON of rknnd_describe_model): a list of objects with
/// `kind` ("converter", "cpu", "slow"), `node`, `op`, `what`, `advice`, and, where it is known,
/// `us` (of the chip's estimate). NULL: out of memory. The caller's to json_decref().
json_t *lint_find(const json_t *model);

void lint_print(const json_t *findings, FILE *out);
void lint_csv(const json_t *findings, FILE *out);
