// Files that are there whole or not at all.
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef int quant_save_write(const void *user, FILE *file, struct error *e);

/// What `write` writes becomes the file. Words of failures do not name it.
int quant_save_file(const char *path, quant_save_write *write, const void *user, struct error *e);
