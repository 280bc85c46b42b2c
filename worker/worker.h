// Inside of a worker process: what its threads share. The daemon's requests come over one socket;
// the thread that reads a run does the run itself and answers it, while another one reads on.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "protocol/message.h"
#include "worker/custom_proxy.h"
#include "worker/dma_sync.h"
#include "worker/dump_tap.h"
#include "worker/loaded_backend.h"

#define WORKER_BUCKETS 256

// Things that have a number, given by the daemon.
struct worker_object {
    struct list link;
    uint32_t number;
};

struct worker {
    int fd;
    const char *module_dir;
    unsigned n_threads;      // at first; 1: runs do not wait
    atomic_uint n_readers;   // threads that read, or want to
    pthread_mutex_t reading; // guards what follows but for the backend's contexts
    struct frame_reader reader;
    struct loaded_backend loaded;
    struct plugins plugins;
    char plugin_dir[sizeof((rknnd_WorkerStart){0}.plugin_dir)];
    struct list contexts[WORKER_BUCKETS];
    struct list buffers[WORKER_BUCKETS];
    struct list memories[WORKER_BUCKETS];
    pthread_mutex_t writing; // of answers
    // What a thread did before its answer comes before what any thread does for a later request.
    // The daemon sees to that, but it is another process: the language knows of an order only by
    // this.
    atomic_uint n_answers;
};

// A tensor's place in a client's memory.
struct worker_bound {
    bool there;             // else it is in the job's buffer
    struct npu_input input; // one of the two
    struct npu_output output;
    struct convert_form form; // of the output
    uint64_t room;            // bytes of the memory from there on
};

// A context. One job at a time, and the daemon knows of its end before it asks for more.
struct worker_context {
    struct worker_object object;
    struct worker *worker;
    struct npu_context *npu;
    atomic_bool running;
    uint32_t request;
    struct npu_job job;
    struct dma_sync sync;
    struct npu_input *inputs;
    struct npu_output *outputs;
    struct worker_bound *bound; // inputs, then outputs
    struct error unusable;      // code 0: it is not
    struct gate gate;
    struct dump_tap tap;
    struct custom_proxy proxy;
    struct run_slices slices;
    uint32_t samples; // of a run; 0: 1
    uint16_t type;    // WORKER_RUN or WORKER_DUMP
    atomic_int left;  // of a run: the submit's return and the backend's done()
    int status;
    struct error error;
};

/// Things by their number; NULL: there is none. The caller has `reading`.
void *worker_find(struct list *buckets, uint32_t number);
void worker_add(struct list *buckets, struct worker_object *n, uint32_t number);

/// Handles one request. A run is prepared only: *ret_run is its context. The caller has `reading`.
void worker_handle(struct worker *w, const struct frame_header *h, struct bytes message,
                   struct worker_context **ret_run);

/// Does a run that worker_handle() prepared. Answers it, or leaves that to the backend's thread.
void worker_run(struct worker_context *c);

/// Sends an answer; NULL is out of memory. Ends the process if the daemon is gone.
void worker_answer(struct worker *w, struct frame_out *f);

/// Starts threads until there are `n`, the calling one included. Ends the process if one cannot be
/// had.
void worker_start_threads(struct worker *w, unsigned n);

/// Something has failed for this reason: ends the process if no thread can be started, which then
/// is what it failed for.
void worker_check_threads(const struct error *why);

/// Ends the process because the daemon, which is trusted, sent what it should not: a bug.
_Noreturn void worker_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// The body of a worker process, which the daemon starts as `rknnd --worker FD --module-dir DIR`
/// (/proc/self/exe): serves one model over the socket `fd`. Ends the process when the socket
/// closes; returns an exit code only if it cannot start.
int worker_main(int fd, const char *module_dir);
