// What a model has done: counts and times, as the protocol's statistics extension has them.
#pragma once

#include <stdint.h>

struct reply;

struct duration {
    uint64_t count, ns;
};

#define STATISTICS_MAX_BATCH 128 // larger batches count as this

struct batch_times {
    struct duration input, infer, output;
};

struct statistics {
    uint64_t last_ms; // since 1970
    uint64_t inferences, executions;
    struct duration success, fail, queue;
    struct batch_times all; // of requests
    struct batch_times batches[STATISTICS_MAX_BATCH + 1];
};

// Of one run.
struct run_times {
    uint64_t input_ns, infer_ns, output_ns;
};

/// A run of `samples` for `n` requests.
void statistics_run(struct statistics *s, uint32_t samples, uint32_t n, const struct run_times *t);
/// A request has ended well.
void statistics_success(struct statistics *s, uint32_t samples, uint64_t queue_ns, uint64_t ns);
void statistics_failure(struct statistics *s, uint64_t ns);

/// Everything but name and version, as JSON members.
void statistics_print(const struct statistics *s, struct reply *r);
