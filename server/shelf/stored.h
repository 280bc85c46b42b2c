// One stored model: a version of a name.
#pragma once

#include <stdbool.h>

#include "server/shelf/manifest.h"
#include "server/shelf/shelf_names.h"

#define SHELF_MAX_STORED 4096 // versions of all names

struct stored {
    char name[SHELF_NAME_SIZE], version[SHELF_VERSION_SIZE];
    struct manifest manifest;
    bool is_default;
    char problem[256]; // why it cannot be used; "": it can
};
