// Files that are there whole or not at all.
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef int quant_save_write(const void *user, FILE *file, struct error *e);

/// What `write` writes becomes the file. Words of failures begin with its path. A write that
/// fails on the stream needs no words: closing has them.
int quant_save_file(const char *path, quant_save_write *write, const void *user, struct error *e);
