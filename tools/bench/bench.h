// Many clients of one model, or of several, at once, measured.
#pragma once

#include "tools/task.h"
#include "tools/view/timing.h"

#define BENCH_MODELS 16

// A model that is asked, and what with.
struct bench_model {
    const char *path;
    struct input_set inputs; // set anew before every run
};

struct bench_plan {
    struct task task; // of each model, but for its path
    struct bench_model models[BENCH_MODELS];
    uint32_t n_models;
    uint32_t clients;      // of each model
    uint32_t loop, warmup; // runs of each client
    double seconds;        // after which no run begins; 0: no matter
    double rate;   // runs of each model that are asked for in a second, by chance; 0: see below
    uint32_t seed; // of that chance
    bool want_float;
};

// One run. Its times are as those of the result.
struct bench_sample {
    uint32_t model, client; // of the plan's; of that model's
    uint64_t start_ns;      // since all clients began
    uint64_t latency_ns, queue_us, run_us;
    uint64_t late_ns; // of the latency: until a client was free to begin it; 0 without a rate
};

#define BENCH_TOTAL UINT32_MAX

// Times of all runs of a model's clients, or of all models', sorted.
struct bench_result {
    uint32_t model;       // BENCH_TOTAL: all of them
    size_t n;             // runs; fewer than planned after Ctrl-C or a failure
    uint64_t wall_ns;     // from the first start to the last end
    uint64_t *latency_ns; // inputs set, run, outputs got, as a program sees it
    uint64_t *queue_us, *run_us;
    struct bench_sample *samples; // of one client after the other, in order
    struct timing timing;         // whose run_us is
    uint64_t estimate_ns;         // of one run; 0: not known
};

/// Fills *ret with what all models' clients did, and ret_each[n_models] with each one's (NULL: not
/// asked for). Opens a context for each client, in a thread of its own;
/// when all are warm they start together. The first failure ends all of them; *ret then has the
/// runs until it.
///
/// Without a rate each client runs again as soon as it can. With one, runs are asked for at times
/// that do not depend on answers (a Poisson process), and the first client that is free does the
/// next; a run's latency counts from when it was asked for, so that it shows what waits. Models
/// have times of their own.
int bench_run(const struct bench_plan *plan, struct bench_result *ret,
              struct bench_result *ret_each, struct error *e);
void bench_result_done(struct bench_result *r);

/// Whether more was asked for, `asked` runs a second in all, than could be done, so that runs
/// queued: medians of the latency of the first and of the last quarter of runs are then before and
/// after, in nanoseconds.
bool bench_is_overrun(const struct bench_result *r, double asked, uint64_t *ret_before,
                      uint64_t *ret_after);
