// Recording: what this process says to its servers goes into the file that RKNND_RECORD names.
//
// The recorder is the process's, and its file is made by the first connection. Connections that are
// recorded do without file descriptors, so that all bytes that matter are in frames.
#pragma once

#include "client/model/model.h"
#include "protocol/message.h"

struct record;

/// Whether RKNND_RECORD is set.
bool record_wanted(void);

/// A connection's part in the recording; *ret is NULL when none is wanted. Fails when the file
/// cannot be made, or is there already (another process may be writing it).
int record_join(struct record **ret, struct error *e);

/// The connection ends. NULL is fine.
void record_leave(struct record *r);

// For the rest `r` may be NULL: nothing happens. The connection's lock is held.

/// A request that is about to be sent. A negative status when it cannot be recorded: then it must
/// not be sent.
int record_request(struct record *r, uint16_t type, const struct frame_out *f, struct error *e);

/// A model that contexts of this connection are going to be opened of.
int record_model(struct record *r, const struct model *m, struct error *e);

/// An answer, or a part of one, whose payload will be in these segments; and: it is there.
void record_answer(struct record *r, const struct frame_header *h, struct bytes message,
                   const struct iovec *segments, int n_segments);
void record_answer_whole(struct record *r);

void record_before_fork(void);
void record_after_fork(bool child);
