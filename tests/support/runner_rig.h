// A runner on a loop of its own, with the do-nothing backend. The program's main() must run
// worker_main() when it is called as a worker: rig_is_worker().
#pragma once

#include "server/observe/trace.h"
#include "server/runner/runner.h"

// One job and what came of it.
struct rig_job {
    struct rig *rig;
    struct runner_job job;
    struct npu_input input;
    bool done;
    struct error error; // code 0: success
    unsigned order;     // n-th that was done
};

struct rig {
    uv_loop_t loop;
    struct runner_options options;
    struct runner_counters counters;
    struct trace trace; // records nothing
    struct runner *runner;
    struct model_file model;
    bool loaded;
    struct error error; // of loading
    unsigned n_done;
    uint32_t timeout_ms; // of the next jobs; 0: the runner's
    bool collect_perf;   // in the next jobs
    // What there was before:
    unsigned n_fds;
    char backend_options[128];
};

/// Also takes stock of what the process has. `options` are the null backend's.
void rig_init(struct rig *r, bool threads, const char *options);

/// This process has at most so many descriptors, as soon as threads have closed what they are to.
void rig_expect_fds(unsigned max);

/// Closes the loop and checks that nothing is left: handles, workers, buffers, fds, zombies.
void rig_done(struct rig *r);

void rig_start(struct rig *r); // runner_new(), which must succeed
void rig_load(struct rig *r);  // … and waits until it is loaded, which must succeed
void rig_free(struct rig *r);  // runner_free()

/// Opens a context and waits for it; it must succeed.
struct runner_context *rig_open(struct rig *r);

/// Submits a job whose input is `fill`, IN_BYTES times; not yet waited for.
void rig_submit(struct rig *r, struct rig_job *j, struct runner_context *c, uint8_t fill);
void rig_wait(struct rig *r, struct rig_job *j);

/// Checks that the job succeeded with the right output, and drops its buffer.
void rig_check(struct rig *r, struct rig_job *j, uint8_t fill);

/// Drops the buffer of a job that failed or was cancelled.
void rig_drop(struct rig_job *j);

/// Submits, waits, checks.
void rig_run(struct rig *r, struct runner_context *c, uint8_t fill);

/// Runs the loop until *flag.
void rig_wait_for(struct rig *r, const bool *flag);

/// A child of this process, the `n`-th that /proc shows; 0: there is none.
int rig_child(unsigned n);

/// True if the program was started as `--worker FD --module-dir DIR`; sets both.
bool rig_is_worker(int argc, char **argv, int *ret_fd, const char **ret_module_dir);
