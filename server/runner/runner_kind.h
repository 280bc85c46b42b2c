// Inside of runners: what the two kinds share (runner.c) and where they differ (runner_process.c,
// runner_thread.c). runner.c keeps the contexts and the order of their jobs; a kind opens, runs and
// closes, and may lose its contexts and get them back.
#pragma once

#include "server/runner/model_info.h"
#include "server/runner/runner_job.h"
#include "server/runner/runner_options.h"
#include "worker/model_file.h"

struct runner;

// A kind's operations on a context are asked for one at a time: the context is `busy` until the
// kind answers, from inside or later on the loop.
struct runner_kind {
    size_t context_size; // bytes of the kind's struct, which begins with a runner_context
    /// Frees the runner in the background. The contexts that are left are freed by their users.
    void (*end)(struct runner *h);
    void (*open)(struct runner_context *c); // answer: runner_context_opened()
    void (*run)(struct runner_context *c);  // c->job; answer: runner_context_ran()
    /// After runner_context_dumped() and _called(): the job continues, or is to end. `stop` may
    /// come at any time. Not answered.
    void (*next)(struct runner_context *c, bool stop);
    void (*yield)(struct runner_context *c);   // runner_context_yielded() may come. Not answered
    void (*profile)(struct runner_context *c); // answer: runner_context_profiled()
    /// The context is not busy and nobody wants it any more: frees it, with runner_context_done().
    void (*close)(struct runner_context *c);
    /// The deadline of a busy context, or of the runner itself (c NULL), has passed.
    void (*overdue)(struct runner *h, struct runner_context *c);
};

struct runner {
    const struct runner_kind *kind;
    const struct runner_options *options;
    const struct runner_events *events;
    void *owner;
    struct model_file model; // a copy
    struct model_info info;
    struct buffer_pool *buffers;
    pid_t worker;    // 0: there is no process now
    uint32_t deaths; // of workers
    struct list contexts;
    bool ready;  // contexts can be opened and run
    bool loaded; // on_loaded() has come
    bool failed; // for good; with the words for whoever asks
    struct error failure;
    uint64_t deadline_ms; // of what the runner itself waits for; UINT64_MAX: nothing
    uint64_t limit_ms;    // from when that began
    uint64_t alarm_ms;    // when the timer goes off
    uv_timer_t timer;
    void (*timer_closed)(struct runner *h);
};

enum context_state {
    CONTEXT_CLOSED,
    CONTEXT_OPENING,
    CONTEXT_OPEN,
    CONTEXT_BROKEN, // could not be opened, or opened again; c->failure says why
};

struct runner_context {
    struct runner *runner;
    struct list link;
    void (*opened)(void *owner, const struct error *e); // NULL: has been called
    void *owner;
    enum context_state state;
    struct error failure;
    bool busy, advancing, freed;
    enum { WAITS_NOT, WAITS_WITH_PART, WAITS_WITH_CALL, WAITS_YIELDED } waits; // the job that runs
    uint32_t called;                                                           // node of the call
    bool overdue;            // what it is busy with is past its deadline
    unsigned losses;         // while it was opened, or asked for layer times, in a row
    uint64_t deadline_ms;    // of what it is busy with
    uint32_t limit_ms;       // from when that began
    uint32_t timeout_ms;     // of the job that runs
    struct runner_job *job;  // that runs; NULL: cancelled, or none
    struct buffer *buffer;   // that it uses
    struct binding *binding; // and this; may be NULL
    struct list waiting;     // jobs
    struct list profiles;    // requests
};

#define RUNNER_NEVER UINT64_MAX

/// The part of runner_new() that both kinds share; `h` is zeroed. On failure nothing is left.
int runner_init(struct runner *runner, const struct runner_kind *kind,
                const struct runner_options *options, const struct model_file *model,
                const struct runner_events *events, void *owner, struct error *e);

/// Closes the timer and frees what runner_init() made; closed(h) comes on the loop, then the struct
/// may be freed.
void runner_done(struct runner *runner, void (*closed)(struct runner *runner));

/// Before the struct is freed.
void runner_context_done(struct runner_context *c);

int runner_thread_new(const struct runner_options *options, const struct model_file *model,
                      const struct runner_events *events, void *owner, struct runner **ret,
                      struct error *e);
int runner_process_new(const struct runner_options *options, const struct model_file *model,
                       const struct runner_events *events, void *owner, struct runner **ret,
                       struct error *e);

// ---- what a kind tells runner.c ---------------------------------------------------------------

/// The model is there (again): opens the contexts, lets waiting jobs run. The first time, on_loaded
/// comes from inside.
void runner_is_ready(struct runner *runner);

/// Nothing will run any more: all who wait get the error, from inside.
void runner_has_failed(struct runner *runner, const struct error *e);

/// All contexts are lost. Jobs that ran are queued again; those that ran before fail with a text
/// that end with `why`, from inside. What was asked besides is asked again.
void runner_has_lost_contexts(struct runner *runner, const struct error *why);

void runner_context_opened(struct runner_context *c, const struct error *e);

/// e NULL: done, with c->job->run_us set if c->job is there.
void runner_context_ran(struct runner_context *c, const struct error *e);

/// A part of the dump that runs is there; the kind's next() comes, perhaps from inside.
void runner_context_dumped(struct runner_context *c, const rknnd_DumpReply *part);

/// The job that runs has come to a node that its owner computes; next() comes as above.
void runner_context_called(struct runner_context *c, uint32_t node);

/// The job that runs waits between two slices, as it was asked to; next() comes as above.
void runner_context_yielded(struct runner_context *c);

/// Whoever waits for what the context is busy with is told that it failed; it stays busy.
void runner_context_give_up(struct runner_context *c, const struct error *e);

void runner_context_profiled(struct runner_context *c, const struct error *e,
                             const rknnd_ProfileReply *reply, struct bytes layers);

/// What the runner itself waits for has to come by then; RUNNER_NEVER: nothing.
void runner_set_deadline(struct runner *runner, uint64_t at_ms);

// ---- what runner.c, runner_jobs.c and runner_deadlines.c know of each other ---------------------

#define RUNNER_ATTEMPTS 2 // of a job

/// Steps until the context is busy or has nothing to do. May free it.
void runner_context_advance(struct runner_context *c);

/// All of them.
void runner_advance_all(struct runner *runner);

/// Tells the owner whether jobs can be submitted. Not before on_loaded(): until then it expects
/// nothing else.
void runner_tell_ready(struct runner *runner, bool ready);

/// Starts an operation of the context and its deadline.
void runner_context_make_busy(struct runner_context *c, uint32_t timeout_ms);

/// The first waiting job of an open context, which is not busy.
void runner_context_start(struct runner_context *c, struct runner_job *job);

/// Ends a job that waits at its gate: the run is told to stop, and its owner hears the reason. The
/// context stays busy until the run has really ended.
void runner_context_end_waiting(struct runner_context *c, const struct error *e);

/// The one way out for a job that is in no list of the runner any more. done() may free the job.
void runner_job_finish(struct runner_job *job, const struct error *e);
