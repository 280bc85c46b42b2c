// Where the modules are: backends, and rknnd-announce.
#pragma once

#include "server/config/options.h"

#define MODULES_DIR_SIZE 4096

/// The folder of the backend that the options name: --module-dir, or the install folder relative to
/// this program, so that a tree that was moved works, or the build tree's.
int modules_find(const struct options *o, char ret[static MODULES_DIR_SIZE], struct error *e);
