// Many clients of one model at once, measured.
#pragma once

#include "tools/task.h"
#include "tools/view/timing.h"

struct bench_plan {
    struct task task;
    uint32_t clients, loop, warmup; // loop and warm-up runs are each client's
    double seconds;                 // after which no run begins; 0: no matter
    double rate;                    // runs that are asked for in a second, by chance; 0: see below
    uint32_t seed;                  // of that chance
    bool want_float;
};

// One run. Its times are as those of the result.
struct bench_sample {
    uint32_t client;
    uint64_t start_ns; // since all clients began
    uint64_t latency_ns, queue_us, run_us;
};

// Times of all runs of all clients, sorted.
struct bench_result {
    size_t n;             // runs; fewer than planned after Ctrl-C or a failure
    uint64_t wall_ns;     // from the first start to the last end
    uint64_t *latency_ns; // inputs set, run, outputs got, as a program sees it
    uint64_t *queue_us, *run_us;
    struct bench_sample *samples; // of one client after the other, in order
    struct timing timing;         // whose run_us is
    uint64_t estimate_ns;         // of one run; 0: not known
};

/// `inputs` are set anew before every run. Opens a context for each client, in a thread of its own;
/// when all are warm they start together. The first failure ends all of them; *ret then has the
/// runs until it.
///
/// Without a rate each client runs again as soon as it can. With one, runs are asked for at times
/// that do not depend on answers (a Poisson process), and the first client that is free does the
/// next; a run's latency counts from when it was asked for, so that it shows what waits.
int bench_run(const struct bench_plan *plan, const struct input_set *inputs,
              struct bench_result *ret, struct error *e);
void bench_result_done(struct bench_result *r);
