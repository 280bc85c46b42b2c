// What the service has done since it started, in numbers that outlive programs. Loop thread only.
//
// Inferences are counted by model, user and priority: a series of these, once begun, stays, so that
// a counter never goes back. There is room for so many, a quarter of them for one user; what comes
// later counts together, as model "other" of the user, or of the user "other". No label holds a
// process, a client or an address.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/who.h"

#define METRICS_MAX_SERIES   512
#define METRICS_MAX_ALL      (2 * METRICS_MAX_SERIES + 1) // with those of "other"
#define METRICS_MODEL_SIZE   64
#define METRICS_ANY_PRIORITY UINT32_MAX
#define METRICS_CODES        16 // -code of base/status.h
#define METRICS_CORES        8

// Upper bounds of buckets, in microseconds.
// clang-format off
#define METRICS_BUCKETS(X)                                                                       \
    X(100) X(250) X(500) X(1000) X(2500) X(5000) X(10000) X(25000) X(50000) X(100000) X(250000)  \
    X(500000) X(1000000) X(2500000) X(5000000) X(10000000)
// clang-format on
#define METRICS_ONE(us) +1
enum { METRICS_N_BUCKETS = 0 METRICS_BUCKETS(METRICS_ONE) };
#undef METRICS_ONE

extern const uint64_t metrics_bounds[METRICS_N_BUCKETS];

struct metrics_histogram {
    uint64_t in[METRICS_N_BUCKETS]; // not those of the buckets below
    uint64_t n, sum_us;
};

enum metrics_outcome {
    METRICS_DONE,
    METRICS_FAILED,
    METRICS_STOPPED, // nobody waited for the answer any more
    METRICS_OUTCOMES,
};

struct metrics_series {
    char model[METRICS_MODEL_SIZE]; // the file's name
    char sha256[13];                // its first digits
    char user[WHO_SIZE];
    uint32_t priority; // 0: high … 2: low; or METRICS_ANY_PRIORITY
    uint64_t outcomes[METRICS_OUTCOMES];
    struct metrics_histogram queue; // waiting for cores
    struct metrics_histogram run;   // on the device
};

// What is counted for all together; cores one by one, in microseconds.
enum metrics_total_of {
    METRICS_UPLOADS,
    METRICS_UPLOAD_BYTES,
    METRICS_WORKER_DEATHS,
    METRICS_RETRIES,
    METRICS_SLOW_TURNS,
    METRICS_LOG_LINES_DROPPED,
    METRICS_STORE_PUSHES,
    METRICS_STORE_LOADS,
    METRICS_STORE_FAILURES,
    METRICS_CORE_BUSY,
    METRICS_TOTALS = METRICS_CORE_BUSY + METRICS_CORES
};

enum metrics_direction { METRICS_IN, METRICS_OUT, METRICS_DIRECTIONS };

// Embedded by the server.
struct metrics {
    struct metrics_series *series[METRICS_MAX_ALL]; // each keeps its place
    unsigned n_series;
    uint64_t errors[METRICS_CODES];                        // answers, by code
    struct metrics_histogram transfer[METRICS_DIRECTIONS]; // inputs and outputs of a run
    uint64_t uploads, upload_bytes;
    uint64_t before[METRICS_TOTALS]; // counted by the daemons whose place this one has taken
    uint64_t sessions_before;        // that are still there
    uint64_t config_s;     // when the configuration was last read and found good, since 1970
    bool config_is_behind; // what has been read since then was not
};

/// The series of what this user runs with this model (`sha256`: its digest); it stays. NULL: there
/// is no memory for it.
struct metrics_series *metrics_find(struct metrics *m, const char *model, const uint8_t *sha256,
                                    const char *user, uint32_t priority);

/// The one with the labels of `like`, which is probably at place `i`.
struct metrics_series *metrics_find_like(struct metrics *m, const struct metrics_series *like,
                                         unsigned i);

void metrics_observe(struct metrics_histogram *h, uint64_t us);

/// An answer that is an error.
void metrics_count_error(struct metrics *m, int code);

void metrics_done(struct metrics *m);
