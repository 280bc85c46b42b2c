// The inputs of one model, for another one that computes the same but leaves to its caller what a
// .rknn file does itself: channel order, mean and standard deviation.
#pragma once

#include <jansson.h>

#include "tools/task.h"

/// Makes `ret` for `golden` from `given`, which is for `m`. The descriptions are those of the two
/// models (description_get). Inputs belong together by name, else by number. Numbers that `m`
/// brings into shape are so in float32 if `golden` does not do the same; all others are as they are
/// given.
int golden_inputs_make(struct input_set *ret, const struct model *golden,
                       json_t *golden_description, const struct input_set *given,
                       const struct model *m, json_t *description, struct failure *f);
