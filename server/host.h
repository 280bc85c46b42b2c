// A model where it runs: in a worker process, or on threads of the daemon (--isolation=thread).
//
// One host for each distinct model; the contexts of all clients that use it share its weights. The
// two kinds keep the same promises, so the rest of the server does not know which it has. Loop
// thread only; every callback comes on the loop thread. Callbacks may call any host function but
// host_free on their own host.
#pragma once

#include <uv.h>

#include "npu/npu.h"
#include "protocol/message.h"
#include "server/buffer.h"

struct host;
struct host_context;

struct host_options {
    uv_loop_t *loop;
    bool threads;                // --isolation=thread
    const char *backend;         // "sim"
    const char *backend_options; // "rk3588"
    const char *module_dir;      // where npu-BACKEND.so lies
    uint32_t load_timeout_ms;    // a worker that takes longer is killed
    uint32_t job_timeout_ms;     // default deadline of a job, counted from its start
    // Counters of the server, kept by the hosts.
    struct host_counters *counters;
};

struct host_counters {
    uint32_t workers;
    uint64_t worker_deaths, jobs_retried;
    uint64_t buffer_bytes;
};

// What a loaded model is; owned by the host.
struct host_info {
    struct npu_device_info device;
    uint32_t n_inputs, n_outputs;
    struct tensor_io *tensors; // inputs, then outputs
    uint64_t weight_size, internal_size, memory_size;
    uint32_t core_limit, batch;
    char custom_string[1024];
    uint64_t output_size; // bytes of all outputs, one after the other
};

struct host_events {
    /// Loaded; or not (e != NULL), and then the host is only good for host_free().
    void (*on_loaded)(void *owner, const struct error *e);
};

/// Starts loading the model file that `model_fd` holds (duplicated; a memfd that no one changes).
/// on_loaded() comes later, once, unless the host is freed first.
int host_new(const struct host_options *options, int model_fd, uint64_t size, const char *name,
             const struct host_events *events, void *owner, struct host **ret, struct error *e);

/// Ends the worker. Contexts must be gone. Resources go in the background, on the loop.
void host_free(struct host *h);

const struct host_info *host_info(const struct host *h); // after on_loaded

/// Opens a context; opened() comes later, once, unless the context is freed first.
int host_context_new(struct host *h, void (*opened)(void *owner, const struct error *e),
                     void *owner, struct host_context **ret, struct error *e);

/// Jobs of it must be done or cancelled.
void host_context_free(struct host_context *c);

// ---- jobs --------------------------------------------------------------------------------------

struct host_job {
    // Set by the caller, who owns the job; it stays until done() or host_job_cancel().
    struct host_context *context;
    struct buffer *buffer;          // of host_buffers(); the host takes references of its own
    const struct npu_input *inputs; // `data` as a pointer into buffer->input; n_inputs of them
    uint32_t core_mask;
    uint32_t timeout_ms; // 0: host_options.job_timeout_ms
    bool collect_perf;
    void (*done)(struct host_job *job, const struct error *e); // e NULL: outputs are in the buffer,
                                                               // one after the other, packed
    // Results:
    uint64_t run_us;
    uint32_t attempts;
    // The host's:
    struct list link;
    uint64_t started_ms;
    uint32_t id;
};

struct buffer_pool *host_buffers(struct host *h);

/// Runs a job; done() comes exactly once, possibly from inside. A worker that dies, or that holds
/// the job longer than its timeout and so is killed, gets a successor on which the job runs once
/// more; after a second death it fails with STATUS_DEVICE_UNAVAILABLE (after a timeout:
/// STATUS_TIMEOUT, and it is not run again if the job itself was past its deadline twice).
void host_submit(struct host_job *job);

/// Forgets a job: done() will not come. What it runs on finishes by itself.
void host_job_cancel(struct host_job *job);

/// Layer times of the context's last run with collect_perf, as the payload of ProfileReply
/// (`layers`, valid inside the callback).
void host_profile(struct host_context *c,
                  void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                              struct bytes layers),
                  void *owner);

/// What the backend says of itself, without a model; in a worker that ends at once.
int host_probe(const struct host_options *options,
               void (*got)(void *owner, const struct error *e, const struct npu_device_info *info),
               void *owner, struct error *e);

/// The backend's description of a model file as JSON text; in a worker that ends at once.
int host_describe(const struct host_options *options, int model_fd, uint64_t size, const char *name,
                  void (*got)(void *owner, const struct error *e, struct bytes json), void *owner,
                  struct error *e);

/// Ends what host_probe() and host_describe() still do: their callbacks will not come. For
/// shutdown.
void host_cancel_all(uv_loop_t *loop);

/// The body of a worker process: serves one host over the socket `fd` until it closes. Returns the
/// exit code. Called by main() for `rknnd --worker FD`.
int host_worker_main(int fd, const char *module_dir);
