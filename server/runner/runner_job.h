// A job as runners take it: what is to be run, with which tensors, and who hears of it.
#pragma once

#include "npu/npu.h"
#include "protocol/custom_message.h"
#include "protocol/message.h"
#include "server/jobs/binding.h"
#include "server/jobs/buffer.h"

struct runner_context;

struct runner_job {
    // Set by the caller, who owns the job; it stays until done() or runner_job_cancel().
    struct runner_context *context;
    struct buffer *buffer;          // of runner_buffers(); the runner takes references of its own
    const struct npu_input *inputs; // n_inputs of them; `data` points into buffer->input, or into
                                    // the memory to which the input is bound
    struct binding *binding;        // of tensors to memory, or NULL; the runner takes a reference
    uint32_t shape_set;
    uint32_t core_mask;
    bool divide_batch;   // as npu_job's
    uint32_t timeout_ms; // 0: runner_options.job_timeout_ms
    bool collect_perf;
    uint32_t samples; // as in rknnd_Infer: that many runs, if it is above 1
    // For a dump, which gives no outputs: part() comes for each part of a tensor, which is at the
    // start of buffer->output and has up to `window` bytes; the job waits until runner_job_next().
    void (*part)(struct runner_job *job, const rknnd_DumpReply *part); // NULL: no dump
    void *part_owner;                                                  // for whoever has set part()
    const char *only;                                                  // as rknnd_Dump.only
    uint64_t window;
    bool replace; // part() comes also for parts that are wanted: runner_job_next() when they are
                  // there
    // For nodes that the caller computes: call() comes when the inputs of one are there; the job
    // waits until runner_job_next(). May come again for a node when the job runs a second time.
    void (*call)(struct runner_job *job, uint32_t node); // NULL: there are none
    void *call_owner;                                    // for whoever has set call()
    struct custom_set custom;
    uint64_t custom_inputs, custom_outputs; // where they are in buffer->output
    // Others may have its cores between slices of about this long; 0: not. yielded() comes when the
    // run waits after runner_job_yield(); the job goes on with runner_job_next().
    uint32_t slice_us;
    void (*yielded)(struct runner_job *job);
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
