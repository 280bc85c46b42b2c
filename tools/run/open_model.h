// A model that is open at the server, with its attributes as the API reports them. Used by the
// thread that opened it.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rknn_api.h"
#include "tools/ui/progress.h"
#include "tools/ui/text_list.h"

struct model {
    const char *path; // of the file here, or "rknnd:NAME"; outlives the model
    rknn_context context;
    bool open;
    uint32_t n_inputs, n_outputs;
    rknn_tensor_attr *inputs, *outputs;
    struct progress upload;
    uint64_t load_ns; // of rknn_init, the upload included
};

/// Whether the path means one of the server's store.
bool model_is_stored(const char *path);

/// Opens the model with RKNN_FLAG_* `flags` and --shape's `shapes` on the chosen server.
/// model_close() is safe after a failure.
int model_open(struct model *m, const char *path, uint32_t flags, const struct text_list *shapes,
               struct error *e);

/// A model of `path` that somebody else has opened, and closes: only model_forget() is for it.
int model_borrow(struct model *m, const char *path, rknn_context context, struct error *e);
void model_forget(struct model *m);

/// Chooses one of several shape sets, from 0 on, for the runs that follow; m->inputs and m->outputs
/// are those of that set afterwards.
int model_set_shape_set(struct model *m, uint32_t shape_set, struct error *e);
void model_close(struct model *m);
