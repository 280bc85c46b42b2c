// A model where it runs: in a worker process, or on threads of the daemon (--isolation=thread).
//
// One runner for each distinct model; the contexts of all clients that use it share its weights.
// The two kinds keep the same promises, so the rest of the server does not know which it has. Loop
// thread only; every callback comes on the loop thread. Callbacks may call any runner function but
// runner_free on their own runner.
#pragma once

#include "server/runner/model_info.h"
#include "server/runner/runner_job.h"
#include "server/runner/runner_options.h"
#include "worker/model_file.h"

struct runner;
struct runner_context;

/// Starts loading the model (copied). on_loaded() comes later, once, unless the runner is freed
/// first.
int runner_new(const struct runner_options *options, const struct model_file *model,
               const struct runner_events *events, void *owner, struct runner **ret,
               struct error *e);

/// Ends the worker. Contexts must be gone. Resources are freed in the background, on the loop. NULL
/// is fine.
void runner_free(struct runner *runner);

const struct model_info *runner_info(const struct runner *runner); // after on_loaded

/// Opens a context; opened() comes later, once, unless the context is freed first. If it brings an
/// error, the context is only good for runner_context_free().
int runner_context_new(struct runner *runner, void (*opened)(void *owner, const struct error *e),
                       void *owner, struct runner_context **ret, struct error *e);

/// Jobs of it must be done or cancelled; profiles that were asked for do not come any more.
void runner_context_free(struct runner_context *c);

// ---- jobs --------------------------------------------------------------------------------------

/// The process that the model is in; 0: in this one, or none now. And how many have died.
pid_t runner_worker(const struct runner *runner);
uint32_t runner_deaths(const struct runner *runner);

struct buffer_pool *runner_buffers(struct runner *runner);

/// Runs a job; a dump is not run again once a part of it is out. done() comes exactly once,
/// possibly from inside. Jobs of one context run one after the other. A worker that dies, or that
/// holds a job longer than its timeout and so is killed, gets a successor on which its jobs run
/// once more; after a second death they fail with STATUS_DEVICE_UNAVAILABLE (the one that was past
/// its deadline: STATUS_TIMEOUT). A worker that dies again and again without finishing a job is
/// replaced more and more slowly, then not any more: everything fails with
/// STATUS_DEVICE_UNAVAILABLE and a text that says so.
void runner_submit(struct runner_job *job);

// What follows may be asked of a job at any time, also before it is submitted and after its end:
// what does not fit what it does then has no effect (the table is in runner.c).

/// A dump's part has been taken, or a node is computed: the job continues. What stays out for
/// longer than the job's timeout ends the job with STATUS_TIMEOUT.
void runner_job_next(struct runner_job *job);

/// Asks a job with slices to wait between two of them: yielded() comes, unless it ends before.
void runner_job_yield(struct runner_job *job);

/// What the job waits for is there, but runner_job_next() comes later: its timeout does not count
/// until then.
void runner_job_answered(struct runner_job *job);

/// Whether the job waits for runner_job_next().
bool runner_job_waits(const struct runner_job *job);

/// Nobody needs the job any more: it ends as soon as it can, which may be when it is done; done()
/// comes later. It is not run again if its worker dies.
void runner_job_stop(struct runner_job *job);

/// Ends a job that waits, with this error: done() comes from inside. Else nothing happens.
void runner_job_fail(struct runner_job *job, const struct error *e);

/// Forgets a job: done() will not come. What it runs on finishes by itself.
void runner_job_cancel(struct runner_job *job);

/// Layer times of the context's last run with collect_perf, as the payload of ProfileReply
/// (`layers`, valid inside the callback). got() comes once, possibly from inside, unless the
/// context is freed first.
void runner_profile(struct runner_context *c,
                    void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                                struct bytes layers),
                    void *owner);

/// No got() comes for what has been asked of the context, which is not asked again. NULL is fine.
void runner_profile_cancel(struct runner_context *c);
