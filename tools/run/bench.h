// Many clients of one model at once, measured.
#pragma once

#include "tools/task.h"
#include "tools/view/timing.h"

struct bench_plan {
    struct task task;
    uint32_t clients, loop, warmup; // loop and warm-up runs are each client's
    bool want_float;
};

// Times of all runs of all clients, sorted.
struct bench_result {
    size_t n;             // runs; fewer than planned after Ctrl-C or a failure
    uint64_t wall_ns;     // from the first start to the last end
    uint64_t *latency_ns; // inputs set, run, outputs got, as a program sees it
    uint64_t *queue_us, *run_us;
    struct timing timing; // whose run_us is
    uint64_t estimate_ns; // of one run; 0: not known
};

/// `inputs` are set anew before every run. Opens a context for each client, in a thread of its own;
/// when all are warm they start together. The first failure ends all of them; *ret then has the
/// runs until it.
int bench_run(const struct bench_plan *plan, const struct input_set *inputs,
              struct bench_result *ret, struct error *e);
void bench_result_done(struct bench_result *r);
