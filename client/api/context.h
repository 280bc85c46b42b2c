// A context: one open model on one connection.
#pragma once

#include "base/cleanup.h"
#include "client/handle.h"
#include "client/limits.h"
#include "client/link/connection.h"
#include "tensor/convert.h"

struct input_room {
    uint8_t *data;
    size_t capacity;
    bool lent; // stream_lend()
};

// An input as it goes with the next run. The relay may still be reading the one before it.
struct input {
    struct input_room rooms[2];
    unsigned in_use;       // of these
    rknnd_InferInput form; // form.size 0: never set
};

enum run_state {
    RUN_FREE,
    RUN_PENDING,  // sent; perhaps answered; nobody has waited for it
    RUN_SELECTED, // waited for: the one whose outputs rknn_outputs_get() gives
};

#define RUN_INPUTS_UNKNOWN UINT64_MAX // in memory that the program may have changed

// One run and the outputs that came of it. Embedded in the context, so that its request may wait
// as long as it likes.
struct run {
    struct request request;
    rknnd_InferReply reply;
    enum run_state state;
    bool fetched; // its outputs, since it was selected
    uint64_t frame;
    uint32_t shape_set;     // that its outputs have
    uint64_t sent_us;       // clock_us()
    uint8_t *outputs;       // all of them, one after the other; allocated with the run's first use
    bool given;             // some went straight to the program and are not in `outputs`
    uint64_t input_version; // of the context's, when it was sent
    struct context *context;
};

struct callbacks;
struct matmul;
struct mem;
struct mem_home;

// A tensor's place in the program's memory (rknn_set_io_mem).
struct bound {
    struct mem *mem; // NULL: none. One reference
    struct mem_home *home;
    uint64_t size; // bytes from the memory's start that a run uses
};

struct context {
    struct handle handle;          // first
    struct connection *connection; // its lock is the context's, too
    uint32_t flags;                // RKNN_FLAG_*
    rknnd_ContextInfo info;
    struct tensor_io *tensors;             // of each shape set: inputs, then outputs
    uint32_t shape_set, largest_shape_set; // that inputs have now; that needs the most memory
    struct input *inputs;
    struct bound *bound;             // inputs, then outputs
    struct mem *internal;            // rknn_set_internal_mem; one reference
    bool old_attrs;                  // the program's rknn_tensor_attr ends before h_stride
    uint64_t input_version;          // counts rknn_inputs_set()
    uint64_t output_room;            // for the outputs of any shape set
    uint32_t core_mask, batch_cores; // of rknnd_Infer
    uint32_t timeout_ms;             // the same
    bool admit;                      // the same
    uint32_t samples;                // the same; set during a call alone
    struct run runs[LIMIT_RUNS];
    uint64_t last_frame;    // 0: nothing was run yet
    rknnd_InferReply times; // of the last run that ended well; attempts 0: none
    uint64_t total_us;
    char *perf_text;             // RKNN_QUERY_PERF_DETAIL
    struct callbacks *callbacks; // operators of the program; NULL: none
    bool lent;                   // a run waits for a callback of the program, which has the context
    pthread_t borrower;          // the callback's thread
    pthread_cond_t back;         // signalled when it is no longer lent
    struct matmul *matmul;       // matmul.h; NULL: a model
};

/// The context of a number, referenced and locked until context_leave(). STATUS_CTX_INVALID for
/// what is not one, STATUS_DEVICE_UNAVAILABLE for one whose server is gone, and for one that was
/// opened in the parent before a fork().
int context_enter(rknn_context number, struct context **ret, struct error *e);

/// The same, and STATUS_CTX_INVALID for the context of a matmul.
int context_enter_model(rknn_context number, struct context **ret, struct error *e);
void context_leave(struct context *c);

CLEANUP_DEFINE(struct context, context_leave)

/// Around a callback that the program gets in the middle of a call: gives up the lock, but keeps
/// all threads but this one out of the context until context_take_back().
void context_lend(struct context *c);
void context_take_back(struct context *c);

/// Refuses what would wait for the run that a callback is a part of, when it comes from inside that
/// callback.
int context_check_free(const struct context *c, struct error *e);

/// Whether a run has been started whose end is not known yet.
bool context_has_pending(const struct context *c);

/// As context_enter() and context_leave(), for a thread that the context ends before it is freed.
void context_lock(struct context *c);
void context_unlock(struct context *c);

/// Ends a number. What it stood for is closed when the last call on it returns.
int context_end(rknn_context number, struct error *e);

/// The place in memory of input or output `i`; NULL when it is not bound.
struct bound *context_bound(const struct context *c, bool output, uint32_t i);

/// A context of this session, referenced and locked as by context_enter(); NULL: there is none any
/// more.
struct context *context_of_session(uint64_t session, const uint8_t secret[HELLO_SECRET_SIZE]);

/// Inputs and outputs in a shape set; a model of fixed shapes has one, 0.
static inline const struct tensor_io *context_input_in(const struct context *c, uint32_t shape_set,
                                                       uint32_t i)
{
    return &c->tensors[(size_t)shape_set * (c->info.n_inputs + c->info.n_outputs) + i];
}

static inline const struct tensor_io *context_output_in(const struct context *c, uint32_t shape_set,
                                                        uint32_t i)
{
    return context_input_in(c, shape_set, c->info.n_inputs + i);
}

/// … in the current shape set.
static inline const struct tensor_io *context_input(const struct context *c, uint32_t i)
{
    return context_input_in(c, c->shape_set, i);
}

static inline const struct tensor_io *context_output(const struct context *c, uint32_t i)
{
    return context_output_in(c, c->shape_set, i);
}

/// Frees its data (inputs.c).
void input_free(struct input *in);

/// Bytes of all outputs in a shape set, as the model stores them.
uint64_t context_output_size(const struct context *c, uint32_t shape_set);
