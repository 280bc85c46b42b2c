// Names of a model's classes, by their numbers.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct labels {
    char *text; // lines, each ended by 0
    const char **names;
    uint32_t n;
    uint32_t longest; // bytes
};

/// From a file with a name in each line (an empty one is of a class without a name), or, at
/// "rknnd:NAME@VERSION", from what the daemon keeps with a model.
int labels_open(struct labels *ret, const char *place, struct error *e);

/// "": it has none.
const char *labels_name(const struct labels *l, uint32_t number);

void labels_done(struct labels *l);
