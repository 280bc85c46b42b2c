// One model file, loaded with certain options, and the runner that runs it, if something does.
#pragma once

#include "base/cleanup.h"
#include "server/runner/runner.h"

struct model;
struct model_use;
struct user;

// Who keeps the models, and what they share. Embedded by the store.
struct model_keeper {
    uv_loop_t *loop;
    const struct runner_options *runner_options;
    struct trace *trace;
    unsigned n_loaded, n_runners;
    /// The model has its first reference (again), or its last one has gone.
    void (*on_used)(struct model *m);
    void (*on_unused)(struct model *m);
    /// A model has no uses any more, or could not be loaded: is to be unloaded, not from inside.
    void (*on_idle)(struct model_keeper *k);
    /// One more is to be loaded: those that are idle and in the way are unloaded.
    void (*make_room)(struct model_keeper *k, const struct model *m);
    /// The model's worker is being replaced, so its jobs cannot run; or they can again.
    void (*on_held)(struct model_keeper *k, const struct model *m, bool held);
};

enum model_state {
    MODEL_COLD,    // only the file
    MODEL_LOADING, // runner is there, not ready
    MODEL_LOADED,
    MODEL_FAILED, // did not load; the runner is about to be freed, then COLD
};

#define MODEL_MAX_CORES 8 // of a run

struct model {
    struct list link; // in the store
    struct model_keeper *keeper;
    unsigned refs;
    uint8_t sha256[MODEL_SHA256_SIZE];
    struct model_file file; // a sealed memfd; the name is printable. Owned
    struct model *original; // of a variant: the model without load options; one reference
    struct list users;      // who knows the file (model_users.h); of an original, as the next two
    unsigned n_users;
    struct user *payer; // for the file; NULL: nobody holds it

    enum model_state state;
    struct runner *runner; // not when COLD; holds a reference to the model
    struct list waiting;   // model_use: until it is loaded
    struct list uses;      // model_use: all
    unsigned n_uses;
    struct user *worker_payer; // one of theirs; NULL: there are none
    uint64_t n_jobs, run_us;   // done since it was loaded; time on the device
    uint64_t
        expected_us[MODEL_MAX_CORES + 1]; // [n]: of a run on n cores, by the last ones; 0: none
    uint8_t *tensors;                     // payload of ContextInfo, once loaded
    size_t tensors_size;
    uint64_t idle_since_ms; // uv_now(); while loaded without uses
};

struct model *model_ref(struct model *m);
void model_unref(struct model *m); // NULL: nothing

CLEANUP_DEFINE(struct model, model_unref)

// Somebody who needs the model loaded. Embedded by its owner (a context).
struct model_use {
    struct model *model;
    struct user *user;
    struct list link, in_model;
    uint64_t n_jobs, run_us; // of this one; the owner's to count, with the model's
    void (*ready)(struct model_use *use, const struct error *e); // e NULL: loaded
};

/// Loads the model if need be, for a user who stays as long as the use: one of a model's users pays
/// for its worker. ready() comes once: from inside if it is loaded, else later, unless
/// the use ends before. After a failure the use has ended by itself.
void model_use_begin(struct model_use *use, struct model *m, struct user *user,
                     void (*ready)(struct model_use *use, const struct error *e));

/// The last use that ends gives the runner `worker_idle_s` to live. NULL model: nothing.
void model_use_end(struct model_use *use);

/// Ends the runner now; no uses may be left. Gives up the runner's reference, so `m` may be gone.
/// Not from a callback of its runner.
void model_unload(struct model *m);
