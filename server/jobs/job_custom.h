// Custom operators of a job: nodes that the client computes while the run waits.
//
// The client is called with the inputs of one node at a time (a part of the job's answer) and gives
// the outputs back (CUSTOM_DONE). Each call is answered once before the next one is made, also when
// the worker has died meanwhile and the job runs a second time: then that answer is of no use.
#pragma once

#include "server/jobs/job_hold.h"
#include "server/net/request.h"
#include "server/runner/runner.h"

struct connection;
struct job_custom;

/// Bytes that the nodes' tensors take behind `output_room` bytes of the job's own outputs;
/// STATUS_PARAM_INVALID if a node's inputs or outputs are more than a frame's payload may have
/// (`max_payload`).
int job_custom_room(const struct model_info *info, const struct custom_set *set,
                    uint64_t output_room, uint64_t max_payload, uint64_t *ret, struct error *e);

/// Lets the client behind `request` compute the nodes of `set` in a run, which has not been
/// submitted, and whose waiting is `hold`'s. The run's buffer has `output_room` bytes for outputs,
/// then those of job_custom_room(). All of it stays until job_custom_free().
int job_custom_new(struct runner_job *run, struct request *request, struct job_hold *hold,
                   const struct model_info *info, const struct custom_set *set,
                   uint64_t output_room, struct job_custom **ret, struct error *e);

/// Nobody waits for the job any more: outputs that are coming are dropped.
void job_custom_abandon(struct job_custom *c);

/// The job ends. A call that is on its way keeps what it needs. NULL is fine.
void job_custom_free(struct job_custom *c);

/// CUSTOM_DONE came for a job (NULL: it has ended), with `payload_size` bytes.
void job_custom_done(struct job_custom *c, struct connection *from, const rknnd_CustomDone *m,
                     uint64_t payload_size);
