// Inputs for a comparison's reference, made from those of the model: the same numbers, after the
// preprocessing (channel order, mean, standard deviation) that a .rknn file contains and a float
// model leaves to its caller.
#pragma once

#include <jansson.h>

#include "tools/task.h"

/// Makes `ret` for `golden` from `given`, which is for `m`. The descriptions are those of the two
/// models (description_get). Inputs belong together by name, else by number. Numbers that `m`
/// brings into shape are so in float32 if `golden` does not do the same; all others are as they are
/// given.
int golden_inputs_make(struct input_set *ret, const struct model *golden,
                       json_t *golden_description, const struct input_set *given,
                       const struct model *m, json_t *description, struct error *e);
