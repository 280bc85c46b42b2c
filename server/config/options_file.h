// Configuration files (rknnd.conf(5)).
#pragma once

#include "base/error.h"
#include "server/config/options.h"

/// Reads a file's lines into `o`, over what is there. STATUS_PARAM_INVALID, with file and line, for
/// what is not a regular text file of at most 1 MiB, or says an option twice or wrongly: `o` then
/// has the lines before that one.
int options_read_file(struct options *o, const char *path, struct error *e);
