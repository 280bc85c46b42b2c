// The model files that the server holds, by hash, and by load options where there are some. Files
// that nobody uses stay as a bounded cache.
#pragma once

#include "base/cleanup.h"
#include "server/models/model.h"

struct server;

// An unused model costs a file descriptor, so their number is bounded as well.
#define STORE_MAX_CACHED 256

struct store {
    struct server *server;
    struct list models;    // least recently used first
    uint64_t bytes;        // of all model files
    uint64_t cached_bytes; // of those without references
    unsigned n_cached, n_loaded;
    uv_timer_t reaper; // unloads models that have been idle for long enough
};

void store_init(struct store *s, struct server *server);

/// Unloads and frees everything; nobody else may hold a reference. The timer closes on the loop.
void store_close(struct store *s);

/// A model has no uses any more, or has failed: sees to its unloading, from the loop.
void store_note_idle(struct store *s);

/// The model with this hash, without load options; NULL if it is not held. No reference is taken.
struct model *store_find(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE]);

/// Takes a complete, checked file (over: `fd`, also on failure). Returns it with one reference.
int store_add(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], int fd, uint64_t size,
              const char *name, struct model **ret, struct error *e);

/// The model with this hash and these load options, with one reference. Models of one file share
/// it. STATUS_MODEL_INVALID: the file is not held.
int store_get(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], const char *options,
              struct model **ret, struct error *e);

struct model *store_ref(struct model *m);
void store_unref(struct model *m);

CLEANUP_DEFINE(struct model, store_unref)

/// Frees unused models, oldest first, until `room` more bytes fit the server's limit. False if they
/// still do not.
bool store_make_room(struct store *s, uint64_t room);
