// Stored models on the disk. Any process may be killed at any moment: a version is there with all
// its bytes, or not at all.
//
//     ROOT/NAME/VERSION/model, manifest.json     complete, and never changed
//     ROOT/NAME/.default                         the version that NAME means, if one was chosen
//     ROOT/.new-…, .gone-…                       on its way in, or out: nothing, after a crash
//
// What is new is written and synced beside, and renamed into its place; what goes is renamed first.
// Writers of all processes lock a file in ROOT (flock), so that what they leave half-done has no
// owner. Readers take no lock. No state but the disk's: several daemons may have one ROOT, as
// during an upgrade. Functions block; names and versions have been checked (shelf_names.h).
#pragma once

#include "server/shelf/stored.h"

/// Opens ROOT, which is made if its parent is there.
int shelf_open(const char *path, int *ret_root, struct error *e);

/// Has the descriptor `root` be that of the folder that `path` names now: it may have been moved,
/// replaced or mounted over. Returns 1 if it is another one.
int shelf_follow(const char *path, int root, struct error *e);

/// Removes what killed processes have left. (shelf_put() does, too.)
int shelf_clean(int root, struct error *e);

/// One version; "": the default one. With the manifest's text (malloc'ed), unless that is NULL.
/// STATUS_MODEL_INVALID: there is none, or it cannot be used.
int shelf_find(int root, const char *name, const char *version, struct stored *ret, char **ret_text,
               struct error *e);

/// All, by name and age; also those with problems. malloc'ed.
int shelf_list(int root, struct stored **ret, size_t *ret_n, struct error *e);

/// A sealed memfd with its bytes, whose hash is right.
int shelf_load(int root, const struct stored *s, int *ret_fd, struct error *e);

// What may be stored, in bytes; 0: no limit.
struct shelf_limits {
    uint64_t owner, all;
};

// One to be stored.
struct shelf_put {
    const char *name, *version;       // "": the next number
    struct manifest manifest;         // but for `order`, and what manifest_write() fills in
    struct bytes labels, description; // manifest_write()
    int fd;                           // the model, from its start
    struct shelf_limits limits;
};

/// What was stored, in *ret; the version that is there already, if it has the same bytes.
int shelf_put(int root, const struct shelf_put *p, struct stored *ret, struct error *e);

/// One version, or with "" the name with all of them. The default one has to be the last.
int shelf_remove(int root, const char *name, const char *version, struct error *e);

/// What the name means from now on; with "" the newest one again.
int shelf_set_default(int root, const char *name, const char *version, struct error *e);
