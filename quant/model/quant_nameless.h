// Files without a name, in $TMPDIR, /var/tmp or /tmp, or else in memory: nobody else can change
// them, and they are gone with their last descriptor and mapping, however the process ends.
#pragma once

#include <stddef.h>

#include "base/error.h"

/// To be written and read; the descriptor is the caller's. Below 0: errno says why.
int quant_nameless_open(void);

/// Maps a copy of an open file, private and to be written: what happens to the file later, which
/// would end a process that maps the file itself where it becomes shorter, is nothing to it. Up to
/// 64 MB it is in memory; in larger ones holes stay holes, and blocks are shared where file systems
/// can. The mapping is the caller's, by munmap(); of an empty file *ret is NULL. What is no regular
/// file, or becomes shorter meanwhile, is STATUS_MODEL_INVALID, a full disk STATUS_FAIL; neither
/// names the file.
int quant_nameless_map(int file, void **ret, size_t *ret_size, struct error *e);
