// Folders that are to be there.
#pragma once

#include <sys/types.h>

#include "base/error.h"

/// Makes the folder `path`, and those above it. One that is there stays as it is, also where
/// nothing could be made (a medium that is read-only, a folder above that others own); what is
/// there and is no folder is refused. `mode` is the folder's, `above` that of those above it, both
/// before the umask. What has been made before a failure stays.
int folder_make(const char *path, mode_t above, mode_t mode, struct error *e);

/// The folders above a file that is to be written, none for a name alone.
int folder_make_above(const char *file, mode_t mode, struct error *e);

/// The folder that a file is in, to be locked or synced: a descriptor, or a negative status.
int folder_open_of(const char *file, struct error *e);
