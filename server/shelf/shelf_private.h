// What reading (shelf_disk.c) and writing (shelf_write.c) share.
#pragma once

#include <dirent.h>
#include <stdint.h>

#include "server/shelf/stored.h"

#define SHELF_MODEL    "model"
#define SHELF_MANIFEST "manifest.json"
#define SHELF_DEFAULT  ".default"

/// A folder in a folder, not through symbolic links; -1 with errno.
int shelf_folder(int in, const char *name);

/// Reads a folder's names from its start; the folder's fd stays. NULL with errno.
DIR *shelf_names(int folder);

/// The versions of a name, by age, with the default one marked. STATUS_MODEL_INVALID: there is no
/// such name.
int shelf_versions(int root, const char *name, struct stored **versions, size_t *n, size_t *room,
                   struct error *e);
