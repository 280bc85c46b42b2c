// The model files that the server holds, by hash, and by load options where there are some. Files
// that nobody uses stay as a bounded cache.
#pragma once

#include "server/models/model.h"

struct givebacks;
struct options;

// An unused model costs a file descriptor, so their number is bounded as well.
#define STORE_MAX_CACHED 256

struct store {
    struct model_keeper keeper;
    const struct options *options;
    const struct accounts *accounts; // how much there may be of everything
    struct list models;              // least recently used first
    uint64_t bytes;                  // of all model files
    uint64_t cached_bytes;           // of those without references
    unsigned n_cached;
    uint64_t max_loaded;         // bytes of loaded models, above which idle ones go
    struct givebacks *givebacks; // where files go in the end
    uv_timer_t reaper;           // unloads models that have been idle for long enough
};

/// `on_held` as in struct model_keeper, whose `k` is &s->keeper.
void store_init(struct store *s, const struct options *options, const struct accounts *accounts,
                const struct runner_options *runner_options,
                void (*on_held)(struct model_keeper *k, const struct model *m, bool held));

/// Unloads and frees everything; nobody else may hold a reference. The timer closes on the loop.
void store_close(struct store *s);

/// The model with this hash, without load options; NULL if it is not held. No reference is taken.
struct model *store_find(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE]);

/// Takes a complete, checked file (over: `fd`, also on failure). Returns it with one reference.
int store_add(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], int fd, uint64_t size,
              const char *name, struct model **ret, struct error *e);

/// The model with this hash and these load options, with one reference. Models of one file share
/// it. STATUS_MODEL_INVALID: the file is not held, or the user does not know it.
int store_get(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], const char *options,
              const struct user *user, struct model **ret, struct error *e);

/// Frees the model that has been unused for longest. False: all are in use.
bool store_evict(struct store *s);

/// Frees models that nobody uses until what is kept fits the options' model-cache.
void store_trim(struct store *s);

/// Unloads the model that has been without uses for longest. False: there is none. Not from a
/// callback of its runner.
bool store_unload_idle(struct store *s);
