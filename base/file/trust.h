// Files that decide who may do what.
#pragma once

#include "base/error.h"

/// Fails if everybody may write to the file. It says nothing of what is no ordinary file, or is not
/// there: whoever reads it does.
int trust_check(const char *path, struct error *e);
