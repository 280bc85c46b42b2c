// What a model file says, asked of the server.
#pragma once

#include <jansson.h>

#include "tools/task.h"

/// Describes the task's model, in its shapes; *ret is the caller's to json_decref(). Also of models
/// that the server would refuse to run: then with a member "refused".
int description_get(const struct task *t, json_t **ret, struct failure *f);
