// One inference: from the first byte of its inputs to the last byte of its outputs.
#pragma once

#include "server/jobs/binding.h"
#include "server/jobs/scheduler.h"
#include "server/net/request.h"
#include "server/runner/runner.h"

struct connection;
struct context;
struct job_custom;
struct job_dump;
struct server;

enum job_state {
    JOB_RECEIVING, // its inputs are being read
    JOB_WAITING,   // for a core
    JOB_RUNNING,   // the runner has it
    JOB_DONE,      // its outputs are being sent
};

struct job {
    struct request request;
    struct server *server;
    struct context *context; // NULL: closed while the inputs came; JOB_DONE
    struct list link;        // in the context
    struct list timed;       // in the server's job_timer, when it has a deadline
    uint32_t limit_ms;       // from its start to its deadline; 0: none
    uint64_t deadline_ms;    // uv_now()
    enum job_state state;
    uint64_t number; // "j345" in logs
    bool no_outputs;
    uint64_t outputs_back[2];  // bit i: output i goes back although it is bound to memory
    struct job_dump *dump;     // NULL: an ordinary run
    struct job_custom *custom; // NULL: the client computes nothing
    struct scheduler_job scheduling;
    struct runner_job run;
    struct scheduler_cores cores;
    uint64_t output_size; // bytes
    uint64_t held_bytes;  // counted in `charged` until freed, with the user until the job is
    uint64_t back_bytes;  // of bound outputs that go back; counted in `charged`, too
    struct connection *charged;
    struct session *session; // one reference
    unsigned n_inputs;
    struct npu_input inputs[];
};

/// A job in state JOB_RECEIVING with a buffer of these sizes and room for n_inputs; to be followed
/// by job_charge().
int job_new(struct context *x, unsigned n_inputs, uint64_t input_size, uint64_t output_size,
            struct job **ret, struct error *e);

/// Frees a job that has not been charged.
void job_drop(struct job *j);

/// Makes it the request `h` of the connection, whose limits it counts against.
void job_charge(struct job *j, struct connection *c, const struct frame_header *h);

/// The inputs are complete: runs it as soon as its turn comes, and answers.
void job_start(struct job *j);

/// Its deadline has passed: it is answered, and stops as soon as it can.
void job_expire(struct job *j);

/// The context closes. Jobs that run stop as soon as they can, without an answer.
void job_context_closed(struct job *j, const struct error *why);

/// Starts whatever can start now.
void jobs_schedule(struct server *s);

/// For shutdown: forgets a running job.
void job_kill(struct job *j);
