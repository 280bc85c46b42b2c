// The custom operators that a program has registered with a context, and the runs that call them.
//
// The server calls for a node in the middle of a run; whoever then waits on the context's
// connection runs the operator's callbacks: the thread in rknn_run(), or in rknn_wait() and the
// like; when the program waits for nothing after a run without blocking, a thread of the library.
// Meanwhile other threads stay out of the context; the callback itself may use it, but not wait for
// its runs.
#pragma once

#include "client/api/context.h"
#include "custom/custom_ops.h"
#include "protocol/custom_message.h"

// What rknn_register_custom_ops() was given.
struct registrations {
    rknn_custom_op *ops;
    uint32_t n, room;
};

struct callbacks;

/// The body of rknn_register_custom_ops().
int callbacks_register(rknn_context context, const rknn_custom_op *ops, uint32_t n,
                       struct error *e);

/// *ret->ops is malloc'ed. `b` may be NULL.
int callbacks_copy_registrations(const struct callbacks *b, struct registrations *ret,
                                 struct error *e);

/// Whether this is its thread, in a callback: then it is that thread which calls finish().
/// NULL is fine.
bool callbacks_leave_to_reader(struct callbacks *b, void (*finish)(struct context *c));

/// Ends its thread. NULL is fine.
void callbacks_stop(struct callbacks *b);

/// Calls destroy() of every operator. NULL is fine.
void callbacks_free(struct callbacks *b);

// ---- for runs; the context's lock is held ------------------------------------------------------

/// Says in a run's request which nodes the program computes. False: none.
bool callbacks_announce(const struct context *c, rknnd_Infer *m);

/// For request.payload: the inputs of a call, of `size` bytes, go to the operator.
int callbacks_take_inputs(const struct context *c, const rknnd_CustomCall *call, uint64_t size,
                          struct iovec *segments, struct error *e);

/// Computes the node whose inputs have come as a part of the request's answer, and tells the
/// server.
void callbacks_compute(struct context *c, struct request *r, const rknnd_CustomCall *call);

/// A run has begun that perhaps nobody waits for: the thread of the library looks after it.
int callbacks_start_reader(struct context *c, struct error *e);
