// Names of stored models and of their versions, which are names of folders, too.
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define SHELF_NAME_SIZE    65 // with the end
#define SHELF_VERSION_SIZE 33

/// ASCII letters, digits, ".", "_" and "-", the first one a letter or a digit: what means the same
/// on every disk, in every address and on every screen. STATUS_PARAM_INVALID with words.
int shelf_check_name(const char *name, struct error *e);
int shelf_check_version(const char *version, struct error *e);

/// Whether it is one.
bool shelf_is_name(const char *name);
bool shelf_is_version(const char *version);
