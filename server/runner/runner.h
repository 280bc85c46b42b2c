// A model where it runs: in a worker process, or on threads of the daemon (--isolation=thread).
//
// One host for each distinct model; the contexts of all clients that use it share its weights. The
// two kinds keep the same promises, so the rest of the server does not know which it has. Loop
// thread only; every callback comes on the loop thread. Callbacks may call any host function but
// host_free on their own host.
#pragma once

#include <uv.h>

#include "base/list.h"
#include "npu/npu.h"
#include "protocol/custom_message.h"
#include "protocol/message.h"
#include "server/jobs/binding.h"
#include "server/jobs/buffer.h"
#include "server/models/model_file.h"

struct host;
struct host_context;

// Stays, with all it points to, until the loop has closed the last handle.
struct host_options {
    uv_loop_t *loop;
    bool threads;                // --isolation=thread
    const char *backend;         // "sim"
    const char *backend_options; // "rk3588"
    const char *module_dir;      // where npu-BACKEND.so lies
    const char *plugin_dir;      // custom operators; "": none
    uint32_t load_timeout_ms;    // a worker that takes longer is killed
    uint32_t job_timeout_ms;     // default deadline of a job, counted from its start
    // Of the server, kept by the hosts too.
    struct host_counters *counters;
    struct trace *trace;
};

struct trace;

struct host_counters {
    uint32_t workers; // processes that exist
    uint64_t worker_deaths, jobs_retried;
    uint64_t buffer_bytes;
    struct list queries;   // host_probe() and host_describe() that are not answered yet
    struct list processes; // that are not killed
};

// What a loaded model is; owned by the host.
struct host_info {
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
static inline size_t host_info_count(const struct host_info *info)
{
    return (size_t)info->n_inputs + info->n_outputs;
}
static inline const struct tensor_io *host_info_row(const struct host_info *info, uint32_t row)
{
    return info->tensors + row * host_info_count(info);
}
uint64_t host_info_output_size(const struct host_info *info, uint32_t row);

struct host_events {
    /// Loaded; or not (e != NULL), and then the host is only good for host_free(): a worker that
    /// dies while it loads is replaced once, one that takes longer than load_timeout_ms is not.
    void (*on_loaded)(void *owner, const struct error *e);
    /// After that: the worker has died, or is gone for good, and what is submitted has to wait; or
    /// waits no longer. NULL: nobody wants to know.
    void (*on_ready)(void *owner, bool ready);
};

/// Starts loading the model (copied). on_loaded() comes later, once, unless the host is freed
/// first.
int host_new(const struct host_options *options, const struct model_file *model,
             const struct host_events *events, void *owner, struct host **ret, struct error *e);

/// Ends the worker. Contexts must be gone. Resources go in the background, on the loop. NULL is
/// fine.
void host_free(struct host *h);

const struct host_info *host_info(const struct host *h); // after on_loaded

/// Opens a context; opened() comes later, once, unless the context is freed first. If it brings an
/// error, the context is only good for host_context_free().
int host_context_new(struct host *h, void (*opened)(void *owner, const struct error *e),
                     void *owner, struct host_context **ret, struct error *e);

/// Jobs of it must be done or cancelled; profiles that were asked for do not come any more.
void host_context_free(struct host_context *c);

// ---- jobs --------------------------------------------------------------------------------------

struct host_job {
    // Set by the caller, who owns the job; it stays until done() or host_job_cancel().
    struct host_context *context;
    struct buffer *buffer;          // of host_buffers(); the host takes references of its own
    const struct npu_input *inputs; // n_inputs of them; `data` points into buffer->input, or into
                                    // the memory to which the input is bound
    struct binding *binding;        // of tensors to memory, or NULL; the host takes a reference
    uint32_t row;                   // of shapes
    uint32_t core_mask;
    bool divide_batch;   // as npu_job's
    uint32_t timeout_ms; // 0: host_options.job_timeout_ms
    bool collect_perf;
    // For a dump, which gives no outputs: part() comes for each part of a tensor, which lies at the
    // start of buffer->output and has up to `window` bytes; the job waits until host_job_next().
    void (*part)(struct host_job *job, const rknnd_DumpReply *part); // NULL: no dump
    const char *only;                                                // as rknnd_Dump.only
    uint64_t window;
    bool
        replace; // part() comes also for parts that are wanted: host_job_next() when they are there
    // For nodes that the caller computes: call() comes when the inputs of one are there; the job
    // waits until host_job_next(). May come again for a node when the job runs a second time.
    void (*call)(struct host_job *job, uint32_t node); // NULL: there are none
    struct custom_set custom;
    uint64_t custom_inputs, custom_outputs; // where they lie in buffer->output
    /// The worker has died: the job is out of the host again, and to be submitted once more, best
    /// when the host is ready. It is still the same job: that will be its second attempt. NULL: it
    /// stays in the host meanwhile.
    void (*lost)(struct host_job *job);
    /// e NULL: outputs are in the buffer, one after the other, packed, or where they are bound.
    void (*done)(struct host_job *job, const struct error *e);
    // Results:
    uint64_t run_us;      // on the device
    uint64_t estimate_ns; // npu_job.estimate_ns
    uint32_t attempts;    // 2: the first worker died
    uint32_t n_tensors;   // of a dump
    // The host's:
    struct list link;
    bool submitted; // the host has it; else nothing but host_submit() has an effect, and `context`
                    // is not looked at
    bool stopped, again;
};

/// The process that the model is in; 0: in this one, or none now. And how many have died.
pid_t host_worker(const struct host *h);
uint32_t host_deaths(const struct host *h);

struct buffer_pool *host_buffers(struct host *h);

/// Runs a job; a dump is not run again once a part of it is out. done() comes exactly once,
/// possibly from inside. Jobs of one context run one after the other. A worker that dies, or that
/// holds a job longer than its timeout and so is killed, gets a successor on which its jobs run
/// once more; after a second death they fail with STATUS_DEVICE_UNAVAILABLE (the one that was past
/// its deadline: STATUS_TIMEOUT). A worker that dies again and again without finishing a job is
/// replaced more and more slowly, then not any more: everything fails with
/// STATUS_DEVICE_UNAVAILABLE and words that say so.
void host_submit(struct host_job *job);

// What follows may be asked of a job at any time, also before it is submitted and after its end:
// what does not fit what it does then has no effect (the table is in runner.c).

/// A dump's part has been taken, or a node is computed: the job goes on. What stays out for longer
/// than the job's timeout ends the job with STATUS_TIMEOUT.
void host_job_next(struct host_job *job);

/// Whether the job waits for host_job_next().
bool host_job_waits(const struct host_job *job);

/// Nobody needs the job any more: it ends as soon as it can, which may be when it is done; done()
/// comes later. It is not run again if its worker dies.
void host_job_stop(struct host_job *job);

/// Ends a job that waits, with this error: done() comes from inside. Else nothing happens.
void host_job_fail(struct host_job *job, const struct error *e);

/// Forgets a job: done() will not come. What it runs on finishes by itself.
void host_job_cancel(struct host_job *job);

/// Layer times of the context's last run with collect_perf, as the payload of ProfileReply
/// (`layers`, valid inside the callback). got() comes once, possibly from inside, unless the
/// context is freed first.
void host_profile(struct host_context *c,
                  void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                              struct bytes layers),
                  void *owner);

/// No got() comes for what has been asked of the context, which is not asked again. NULL is fine.
void host_profile_cancel(struct host_context *c);

/// What the backend says of itself, without a model; in a worker that ends at once.
int host_probe(const struct host_options *options,
               void (*got)(void *owner, const struct error *e, const struct npu_device_info *info),
               void *owner, struct error *e);

/// The backend's description of a model file as JSON text; in a worker that ends at once.
int host_describe(const struct host_options *options, const struct model_file *model,
                  void (*got)(void *owner, const struct error *e, struct bytes json), void *owner,
                  struct error *e);

/// Ends what host_probe() and host_describe() with these options still do: their callbacks will not
/// come. For shutdown.
void host_cancel_all(const struct host_options *options);

/// The body of a worker process, which the daemon starts as `rknnd --worker FD --module-dir DIR`
/// (/proc/self/exe): serves one host over the socket `fd`. Ends the process when the socket closes;
/// returns an exit code only if it cannot start.
int host_worker_main(int fd, const char *module_dir);
