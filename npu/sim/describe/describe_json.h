// What descriptions of model files share.
#pragma once

#include <jansson.h>

#include "base/error.h"

/// Text from the file, which need not be UTF-8.
json_t *json_text(const char *s);

/// Takes `root`; *ret is malloc'ed text. `why` is why the file cannot be run; NULL: it can.
int json_finish(json_t *root, const struct error *why, char **ret, struct error *e);
