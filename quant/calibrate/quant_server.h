// Models in memory on the server that contexts of this thread use.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "quant/model/quant_model.h"
#include "rknnd.h"

/// A failure of the client library, in its words. Returns `code`.
int quant_server_words(int code, struct error *e);

/// Opens a model there, by a file that has no name: it is gone even where this process is killed.
int quant_server_open(const struct quant_model *m, rknn_context *ret, struct error *e);

// The server and load options of a thread, for others, which know nothing of it.
struct quant_caller {
    char *server, *load_options;
};

/// Of the calling thread; quant_caller_done() also after a failure.
int quant_caller_begin(struct quant_caller *c, struct error *e);
void quant_caller_done(struct quant_caller *c);

/// From now on the calling thread has them, too.
int quant_caller_act(const struct quant_caller *c, struct error *e);

// A model that is opened while the calling thread does something else. All 0: there is none.
struct quant_opening {
    const struct quant_model *model; // NULL: none
    struct quant_model copy;         // which that thread reads
    struct quant_caller caller;
    pthread_t thread;
    bool started;
    rknn_context context;
    struct error error;
    int status;
};

/// `m` stays until the opening has ended; what becomes of it meanwhile is not in what is opened.
void quant_opening_begin(struct quant_opening *o, const struct quant_model *m);

/// Waits for it, or opens the model where that failed; the context is the caller's.
int quant_opening_end(struct quant_opening *o, rknn_context *ret, struct error *e);

/// It is not needed any more. All 0: nothing happens.
void quant_opening_drop(struct quant_opening *o);
