// Names of the files into which a model's tensors are written, and their folder.
#pragma once

#include <stdint.h>

#include "base/error.h"

/// "<folder>/<number>_<name><suffix>", with _ for what is no good in a file's name; the caller's to
/// free(). NULL: out of memory.
char *tensor_file_name(const char *folder, uint32_t number, const char *name, const char *suffix);

/// Makes the folder if it is not there.
int tensor_folder_make(const char *folder, struct error *e);
