// A dump: a job that hands the tensors of its nodes to the client, part by part. The client says
// when it has taken a part (DUMP_NEXT); until then the run waits and its core with it. It may be
// asked to give the tensors back, changed.
#pragma once

#include "server/jobs/job_hold.h"
#include "server/net/request.h"
#include "server/runner/runner.h"

struct account;
struct connection;
struct job_dump;

#define DUMP_WINDOW (UINT64_C(4) << 20) // bytes of a part, at most

/// Makes a run, which has not been submitted, a dump of the tensors that match m->only, whose parts
/// are parts of the answer to `request`, and whose waiting is `hold`'s. They have up to `window`
/// bytes; the run's buffer has as many for outputs. All three stay until job_dump_free().
int job_dump_new(struct account *account, struct runner_job *run, struct request *request,
                 struct job_hold *hold, const rknnd_Dump *m, uint64_t window, struct job_dump **ret,
                 struct error *e);

/// Nobody waits for the job any more: a part that is coming is dropped. NULL is fine.
void job_dump_abandon(struct job_dump *d);

/// The job ends. A part that is on its way keeps what it needs.
void job_dump_free(struct job_dump *d);

/// The client has taken the part it was sent, or sends `payload_size` bytes of the one it was asked
/// for.
void job_dump_next(struct job_dump *d, struct connection *from, uint64_t payload_size);
