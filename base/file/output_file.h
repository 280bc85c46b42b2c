// A file that is written whole or not at all: written under a temporary name in the same folder,
// and renamed when it is complete. A file that exists is kept until then and replaced with its
// mode; a symbolic link stays, its target is replaced. Devices and pipes are written to directly,
// "-" is standard output. All that rknnctl writes goes this way.
#pragma once

#include <stdio.h>

#include "base/error.h"

struct output_file {
    FILE *stream; // to be written to; NULL: not open
    const char *path;
    char *target, *temporary; // NULL: it is written to directly
};

/// `path` outlives the file. Words of failures begin with it.
int output_file_open(struct output_file *o, const char *path, struct error *e);

/// All is written: from now on the file has its name. Fails, too, if an earlier write has.
int output_file_close(struct output_file *o, struct error *e);

/// Without output_file_close() before nothing is left of it.
void output_file_drop(struct output_file *o);

/// Whether `path` can be written this way at all, before any work is done; nothing is left of it.
int output_file_check(const char *path, struct error *e);

/// The names for somebody else who writes: *ret_target (behind symbolic links) and a free name
/// beside it; both the caller's. Refuses what is there and is no ordinary file.
int output_file_names(const char *path, char **ret_target, char **ret_temporary, struct error *e);
