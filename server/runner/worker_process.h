// The daemon's end of a worker process: starts it, exchanges frames with it, ends it, reaps it.
#pragma once

#include "base/log.h"
#include "npu/npu.h"
#include "protocol/message.h"
#include "server/runner/runner_options.h"

struct worker_process;

// What it tells its owner, on the loop; not from inside a function below.
struct worker_events {
    /// Is this the answer to a request that is open? (False: the worker breaks the protocol.) Asked
    /// before a byte is allocated for its payload.
    bool (*expects)(void *owner, const struct frame_header *h);
    /// An answer, whole: `m` is of its row's type, or the worker answers with an error (`failure`,
    /// else NULL). Negative, with an error: it makes no sense.
    int (*on_reply)(void *owner, const struct frame_header *h, const struct error *failure,
                    const union message_any *m, struct bytes payload, struct error *e);
    /// The process is gone and reaped; *why says how it ended. Comes once. STATUS_MALLOC_FAIL: it
    /// had no threads, since another one had them, which is being ended.
    void (*on_dead)(void *owner, const struct error *why);
};

/// Starts a process and sends it WORKER_START, as request 1; its answer comes first. `name` is for
/// logs and must stay.
int worker_process_new(const struct runner_options *options, const char *name,
                       const struct worker_events *events, void *owner, struct worker_process **ret,
                       struct error *e);

/// The answer to WORKER_START, checked.
int worker_process_take_device(const rknnd_Device *m, struct npu_device_info *ret, struct error *e);

/// Sends a request (takes ownership of the frame; NULL counts as out of memory and ends it).
void worker_process_send(struct worker_process *w, struct frame_out *f);

/// Tells all that run how much to log from now on; those that come begin with log_level_now().
void worker_processes_set_log_level(const struct runner_options *options, enum log_level level);

/// 0 until it is started, which waits for the end of another one that has taken all threads.
pid_t worker_process_pid(const struct worker_process *w);

/// Ends the process: on_dead() comes, and its words begin with these.
void worker_process_kill(struct worker_process *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Ends the process and forgets the owner; what is left is freed in the background. NULL is fine.
void worker_process_free(struct worker_process *w);
