// Custom operators of a job: nodes that the client computes while the run waits.
//
// The client is called with the inputs of one node at a time (a part of the job's answer) and gives
// the outputs back (CUSTOM_DONE). Each call is answered once before the next one is made, also when
// the worker has died meanwhile and the job runs a second time: then that answer is of no use.
#pragma once

#include "server/net/request.h"
#include "server/runner/runner.h"

struct job;
struct custom;

/// Bytes that the nodes' tensors take behind `output_room` bytes of the job's own outputs;
/// STATUS_PARAM_INVALID if a node's inputs or outputs are more than a frame's payload may have
/// (`max_payload`).
int custom_room(const struct host_info *info, const struct custom_set *set, uint64_t output_room,
                uint64_t max_payload, uint64_t *ret, struct error *e);

/// Lets the client of a job, which has not been started, compute the nodes of `set`. The job's
/// buffer has `output_room` bytes for outputs, then those of custom_room().
int custom_new(struct job *j, const struct host_info *info, const struct custom_set *set,
               uint64_t output_room, struct error *e);

/// Nobody waits for the job any more: outputs that are coming are dropped.
void custom_abandon(struct custom *c);

/// The job ends. A call that is on its way keeps what it needs. NULL is fine.
void custom_free(struct custom *c);

/// CUSTOM_DONE came for the job behind request `r` (NULL: it has ended), with `payload_size` bytes.
void custom_done(struct connection *from, struct request *r, const rknnd_CustomDone *m,
                 uint64_t payload_size);
