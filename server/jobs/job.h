// One inference: from the first byte of its inputs to the last byte of its outputs.
#pragma once

#include "server/jobs/context.h"
#include "server/jobs/job_hold.h"
#include "server/jobs/job_timer.h"
#include "server/metrics/metrics.h"
#include "server/net/request.h"
#include "server/runner/runner.h"
#include "server/scheduler/scheduler.h"

struct connection;
struct job_custom;
struct job_dump;
struct trace;

// What all jobs share. Embedded by the server.
struct jobs {
    struct scheduler scheduler;
    struct job_timer timer;
    struct job_timer holds;  // of jobs that wait for their clients
    unsigned n_suspended;    // that have no cores meanwhile
    uint32_t hold_limit_ms;  // after which that is so
    uint32_t slice_us;       // of runs that give way to more urgent ones; 0: none do
    bool slices;             // the device can
    struct metrics *metrics; // times of transfers
    struct trace *trace;
    uint64_t last_number, n_done, n_failed;
    bool scheduling; // inside of jobs_schedule()
    /// A job has ended; its answer is queued.
    void (*on_ended)(struct jobs *all);
};

enum job_state {
    JOB_RECEIVING, // its inputs are being read
    JOB_WAITING,   // for a core
    JOB_RUNNING,   // the runner has it, and cores unless `hold` says otherwise
    JOB_DONE,      // its outputs are being sent
};

struct job {
    struct request request;
    struct jobs *all;
    struct context *context;      // NULL: closed while the inputs came; JOB_DONE
    struct context_work work;     // in the context
    struct job_deadline deadline; // in all->timer, when it has one
    uint32_t limit_ms;            // from its start to its deadline; 0: none
    bool admit;                   // it is refused if it cannot be done by then
    enum job_state state;
    uint64_t number; // "j345" in logs
    bool no_outputs;
    uint64_t outputs_back[2];  // bit i: output i goes back although it is bound to memory
    struct job_dump *dump;     // NULL: an ordinary run
    struct job_custom *custom; // NULL: the client computes nothing
    struct scheduler_job scheduling;
    struct runner_job run;
    struct scheduler_cores cores;
    struct job_hold hold;
    uint64_t queued_us;            // that it has waited for cores
    uint64_t begun_us;             // when the runner got it for the first time; 0: not yet
    uint64_t since_us;             // when its inputs, or its outputs, began to move
    struct metrics_series *series; // NULL: there is none, or it is counted already
    uint64_t output_size;          // bytes
    uint64_t held_bytes; // counted in `charged` until freed, with the user until the job is
    uint64_t back_bytes; // of bound outputs that go back; counted in `charged`, too
    struct connection *charged;
    struct session *session; // one reference
    unsigned n_inputs;
    struct npu_input inputs[];
};

// Suspended jobs take a thread where they run, so their number is limited.
// Where there is no room for one more, those of a user who has many end.
#define JOBS_SUSPENDED_MAX  16
#define JOBS_SUSPENDED_MANY 8

/// The two timers close with uv_close(); the scheduler is set up by scheduler_init() when the
/// number of cores is known.
void jobs_init(struct jobs *all, uv_loop_t *loop, struct trace *trace, uint32_t hold_limit_ms,
               void (*on_ended)(struct jobs *all));

/// A job in state JOB_RECEIVING with a buffer of these sizes and room for n_inputs; to be followed
/// by job_charge().
int job_new(struct jobs *all, struct context *x, unsigned n_inputs, uint64_t input_size,
            uint64_t output_size, struct job **ret, struct error *e);

/// Frees a job that has not been charged.
void job_drop(struct job *j);

/// Makes it the request `h` of the connection, whose limits it counts against.
void job_charge(struct job *j, struct connection *c, const struct frame_header *h);

/// The inputs are complete: runs it as soon as its turn comes, and answers.
void job_start(struct job *j);

/// For shutdown: forgets the jobs that run in a context.
void jobs_kill(struct context *x);

/// The job's dump, or its custom operators, behind a request; NULL: it is another request, or has
/// none. `r` may be NULL.
struct job_dump *job_find_dump(struct request *r);
struct job_custom *job_find_custom(struct request *r);

// ---- what job.c, job_answer.c and job_time.c know of each other
// ----------------------------------

static inline uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

/// Once: what becomes of it.
void job_count(struct job *j, enum metrics_outcome outcome);

/// Jobs of contexts that share their internal memory share its queue.
struct scheduler_queue *job_queue(struct job *j);

/// Bytes of bound outputs that are sent as well.
uint64_t job_back_size(const struct job *j);

/// Answers with an error, counts the failure, and frees the job.
void job_fail(struct job *j, const struct error *e);

/// What becomes of a job whose run has ended (e: why it failed, or NULL); frees it now, or when the
/// reply has been sent.
void job_conclude(struct job *j, const struct error *e, const struct model_info *info);

/// Of a run that has ended: makes what its worker says of its time as true as can be.
void job_check_time(struct job *j);
/// And these take it into what is known of the model's runs, and into metrics.
void job_learn(const struct job *j);
void job_observe(const struct job *j);

/// Several runs in one request hold the device as one does, so they may take as long as a long one,
/// by the model's last runs. STATUS_PARAM_INVALID: they take longer, or the model has not run yet.
int job_check_samples(const struct model *m, uint32_t samples, struct error *e);

/// STATUS_TIMEOUT if it would not be done within its limit, as far as is known.
int job_admit(struct job *j, struct error *e);
