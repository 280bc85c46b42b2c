// A model where it runs: in a worker process, or on threads of the daemon (--isolation=thread).
//
// One runner for each distinct model; the contexts of all clients that use it share its weights.
// The two kinds keep the same promises, so the rest of the server does not know which it has. Loop
// thread only; every callback comes on the loop thread. Callbacks may call any runner function but
// runner_free on their own runner.
#pragma once

#include <uv.h>

#include "base/list.h"
#include "npu/npu.h"
#include "protocol/custom_message.h"
#include "protocol/message.h"
#include "server/jobs/binding.h"
#include "server/jobs/buffer.h"
#include "worker/model_file.h"

struct runner;
struct runner_context;

// Stays, with all it points to, until the loop has closed the last handle.
struct runner_options {
    uv_loop_t *loop;
    bool threads;                // --isolation=thread
    const char *backend;         // "sim"
    const char *backend_options; // "rk3588"
    const char *module_dir;      // where npu-BACKEND.so lies
    const char *plugin_dir;      // custom operators; "": none
    uint32_t load_timeout_ms;    // a worker that takes longer is killed
    uint32_t job_timeout_ms;     // default deadline of a job, counted from its start
    // Of the server, kept by the runners too.
    struct runner_counters *counters;
    struct trace *trace;
};

struct trace;

struct runner_counters {
    uint32_t workers; // processes that exist
    uint64_t worker_deaths, jobs_retried;
    uint64_t buffer_bytes;
    struct list queries;   // runner_probe() and runner_describe() that are not answered yet
    struct list processes; // that are not killed
};

// What a loaded model is; owned by the runner.
struct runner_info {
    struct npu_device_info device;
    uint32_t n_inputs, n_outputs;
    uint32_t n_rows;           // of shapes, at least 1
    bool native_attrs;         // npu_model_info.native_attrs
    bool no_custom;            // npu_model_info.no_custom
    struct tensor_io *tensors; // of each row: inputs, then outputs
    uint64_t weight_size, internal_size, memory_size;
    uint32_t core_limit, batch;
    char custom_string[1024];
    char estimate_chip[32]; // as in npu_model_info; "": none
    bool estimate_assumed;
    uint32_t n_unestimated;
    struct custom_list *custom;  // nodes that others may compute
    struct bytes custom_payload; // of CustomListReply
};

/// Number of tensors of one row, all of its tensors, and bytes of its outputs, one after the other.
static inline size_t runner_info_count(const struct runner_info *info)
{
    return (size_t)info->n_inputs + info->n_outputs;
}
static inline const struct tensor_io *runner_info_row(const struct runner_info *info, uint32_t row)
{
    return info->tensors + row * runner_info_count(info);
}
uint64_t runner_info_output_size(const struct runner_info *info, uint32_t row);

struct runner_events {
    /// Loaded; or not (e != NULL), and then the runner is only good for runner_free(): a worker
    /// that dies while it loads is replaced once, one that takes longer than load_timeout_ms is
    /// not.
    void (*on_loaded)(void *owner, const struct error *e);
    /// After that: the worker has died, or is gone for good, and what is submitted has to wait; or
    /// waits no longer. NULL: nobody wants to know.
    void (*on_ready)(void *owner, bool ready);
};

/// Starts loading the model (copied). on_loaded() comes later, once, unless the runner is freed
/// first.
int runner_new(const struct runner_options *options, const struct model_file *model,
               const struct runner_events *events, void *owner, struct runner **ret,
               struct error *e);

/// Ends the worker. Contexts must be gone. Resources go in the background, on the loop. NULL is
/// fine.
void runner_free(struct runner *runner);

const struct runner_info *runner_info(const struct runner *runner); // after on_loaded

/// Opens a context; opened() comes later, once, unless the context is freed first. If it brings an
/// error, the context is only good for runner_context_free().
int runner_context_new(struct runner *runner, void (*opened)(void *owner, const struct error *e),
                       void *owner, struct runner_context **ret, struct error *e);

/// Jobs of it must be done or cancelled; profiles that were asked for do not come any more.
void runner_context_free(struct runner_context *c);

// ---- jobs --------------------------------------------------------------------------------------

struct runner_job {
    // Set by the caller, who owns the job; it stays until done() or runner_job_cancel().
    struct runner_context *context;
    struct buffer *buffer;          // of runner_buffers(); the runner takes references of its own
    const struct npu_input *inputs; // n_inputs of them; `data` points into buffer->input, or into
                                    // the memory to which the input is bound
    struct binding *binding;        // of tensors to memory, or NULL; the runner takes a reference
    uint32_t row;                   // of shapes
    uint32_t core_mask;
    bool divide_batch;   // as npu_job's
    uint32_t timeout_ms; // 0: runner_options.job_timeout_ms
    bool collect_perf;
    // For a dump, which gives no outputs: part() comes for each part of a tensor, which lies at the
    // start of buffer->output and has up to `window` bytes; the job waits until runner_job_next().
    void (*part)(struct runner_job *job, const rknnd_DumpReply *part); // NULL: no dump
    const char *only;                                                  // as rknnd_Dump.only
    uint64_t window;
    bool replace; // part() comes also for parts that are wanted: runner_job_next() when they are
                  // there
    // For nodes that the caller computes: call() comes when the inputs of one are there; the job
    // waits until runner_job_next(). May come again for a node when the job runs a second time.
    void (*call)(struct runner_job *job, uint32_t node); // NULL: there are none
    struct custom_set custom;
    uint64_t custom_inputs, custom_outputs; // where they lie in buffer->output
    /// The worker has died: the job is out of the runner again, and to be submitted once more, best
    /// when the runner is ready. It is still the same job: that will be its second attempt. NULL:
    /// it stays in the runner meanwhile.
    void (*lost)(struct runner_job *job);
    /// e NULL: outputs are in the buffer, one after the other, packed, or where they are bound.
    void (*done)(struct runner_job *job, const struct error *e);
    // Results:
    uint64_t run_us;      // on the device
    uint64_t estimate_ns; // npu_job.estimate_ns
    uint32_t attempts;    // 2: the first worker died
    uint32_t n_tensors;   // of a dump
    // The runner's:
    struct list link;
    bool submitted; // the runner has it; else nothing but runner_submit() has an effect, and
                    // `context` is not looked at
    bool stopped, again;
};

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
/// STATUS_DEVICE_UNAVAILABLE and words that say so.
void runner_submit(struct runner_job *job);

// What follows may be asked of a job at any time, also before it is submitted and after its end:
// what does not fit what it does then has no effect (the table is in runner.c).

/// A dump's part has been taken, or a node is computed: the job goes on. What stays out for longer
/// than the job's timeout ends the job with STATUS_TIMEOUT.
void runner_job_next(struct runner_job *job);

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

/// What the backend says of itself, without a model; in a worker that ends at once.
int runner_probe(const struct runner_options *options,
                 void (*got)(void *owner, const struct error *e,
                             const struct npu_device_info *info),
                 void *owner, struct error *e);

/// The backend's description of a model file as JSON text; in a worker that ends at once.
int runner_describe(const struct runner_options *options, const struct model_file *model,
                    void (*got)(void *owner, const struct error *e, struct bytes json), void *owner,
                    struct error *e);

/// Ends what runner_probe() and runner_describe() with these options still do: their callbacks will
/// not come. For shutdown.
void runner_cancel_all(const struct runner_options *options);
