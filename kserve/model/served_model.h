// A model that is served: what it takes and gives, and contexts of it at the daemon, which requests
// take turns with.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rknn_api.h"

#include "base/error.h"
#include "kserve/library_error.h"
#include "kserve/model/catalog.h"
#include "kserve/model/labels.h"
#include "kserve/model/model_counts.h"
#include "kserve/request/datatype.h"

struct served_tensor {
    char name[RKNN_MAX_NAME_LEN];
    const struct datatype *type; // an output's; of an input what it takes best
    bool as_float;               // of an output: real values instead of what is stored
};

// The tensors' shapes, of which a model may have several sets to choose from.
struct shape_set {
    rknn_tensor_attr *inputs, *outputs;
    uint32_t samples; // the first dimension of all; 0: they have none in common
};

// A context of its own for whoever holds it.
struct lane {
    rknn_context context; // 0: none; lane_ready()
    unsigned set;         // that is chosen
    uint8_t *room;        // for inputs and outputs of several requests
    size_t room_size;
    struct shared_input *inputs; // the model's; NULL: they are not shared
    struct lane *next;
};

#define SERVED_DELAY_BY_RUNS UINT32_MAX // a quarter of what a run takes, and 200 us at least

struct served_options {
    uint32_t lanes;      // contexts of a model, at most; 0: as its batches want it
    uint32_t max_batch;  // samples that a request, or a run, may have
    uint32_t delay_us;   // that a request waits for others, at most; SERVED_DELAY_BY_RUNS
    uint32_t run_ms;     // that a run may take; 0: the daemon's own limit
    uint64_t max_tensor; // bytes of one request's outputs
};

struct batch_entry;
struct shared_input;

struct served_model {
    atomic_uint refs;
    char name[128], version[CATALOG_VERSION_SIZE], path[4096];
    bool is_onnx;
    char *load_options; // NULL: none
    struct labels labels;
    const struct served_options *options;
    uint32_t n_inputs, n_outputs, n_sets;
    struct served_tensor *inputs, *outputs;
    struct shape_set *sets;
    bool batches;     // the first dimension is that of samples, any number of them
    uint32_t per_run; // samples that a run takes, at most
    uint32_t max_lanes;
    bool shares_memory; // the daemon maps memory of ours: it is on this machine

    pthread_mutex_t lock; // of what follows
    pthread_cond_t freed;
    pthread_cond_t more; // as many requests wait as are worth it; CLOCK_MONOTONIC
    struct lane *idle;
    uint32_t n_lanes;
    struct batch_entry *first, *last; // waiting, in order
    uint64_t waiting;                 // samples
    uint64_t inside;                  // samples that wait or run
    uint64_t usual;                   // of these, at most, in the last runs
    uint64_t run_ns;                  // what the last runs took
    bool is_led;                      // one of them gathers others
    bool gathers;                     // it waits for `more`
    struct statistics statistics;
};

/// Opens a context and asks for all there is to know. `load_options`: text of
/// rknnd_set_load_options(); copied.
int served_model_open(const char *path, const char *load_options, const struct served_options *o,
                      struct served_model **ret, struct error *e);
struct served_model *served_model_ref(struct served_model *m);
/// With the model's lock: a run took that long.
void served_model_note_run(struct served_model *m, uint64_t ns);
void served_model_unref(struct served_model *m);

// ---- lanes --------------------------------------------------------------------------------------

/// Waits for one. NULL, without `wait`: none is free, or there is no memory.
struct lane *lane_take(struct served_model *m, bool wait);
/// The same with the model's lock held; may let go of it meanwhile.
struct lane *lane_take_locked(struct served_model *m, bool wait);
void lane_give(struct served_model *m, struct lane *lane);
/// The same with the model's lock held.
void lane_give_locked(struct served_model *m, struct lane *lane);

/// Opens the lane's context, unless it is, and chooses the shapes.
int lane_ready(struct served_model *m, struct lane *lane, unsigned set, struct error *e);
/// Ends a context whose server is gone.
void lane_lost(const struct served_model *m, struct lane *lane);
/// At least `size` bytes at lane->room; false: no memory.
bool lane_reserve(struct lane *lane, uint64_t size);
