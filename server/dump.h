// A dump: a job that hands the tensors of its nodes to the client, part by part. The client says
// when it has taken a part (DUMP_NEXT); until then the run waits and its core with it.
#pragma once

#include "server/host.h"
#include "server/request.h"

struct job;
struct dump;

#define DUMP_WINDOW (UINT64_C(4) << 20) // bytes of a part, at most

/// Makes a job, which has not been started, a dump of the tensors that match `only`. Parts have up
/// to `window` bytes; the job's buffer has as many for outputs.
int dump_new(struct job *j, const char *only, uint64_t window, struct error *e);

/// The job ends. A part that is on its way keeps what it needs.
void dump_free(struct dump *d);

/// The dump behind a request; NULL: it is another request.
struct dump *dump_find(struct request *r);

/// The client has taken the part it was sent.
void dump_next(struct dump *d);
