// Client processes that run models side by side for a while, and what each of them got.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CROWD_MAX       64
#define CROWD_LATENCIES 20000

// What one client process does, again and again.
struct crowd_role {
    const char *model;    // path
    uint32_t flags;       // of rknn_init
    unsigned n_contexts;  // each in a thread of its own; 0: 1
    unsigned batch_cores; // rknn_set_batch_core_num; 0: not called
    bool greedy;          // two runs on their way in each context; else it waits for each
    unsigned pause_us;    // between two runs, unless it is greedy
    uid_t uid;            // 0: as it is
};

struct crowd_result {
    pid_t pid;
    uint64_t n_runs;                     // that ended well while it was counted
    uint64_t n_runs_ever, n_failed_ever; // also before and after
    uint64_t core_us;                    // device time, by the daemon's account
    uint32_t n_latencies;
    uint32_t latency_us[CROWD_LATENCIES]; // of single runs
};

struct crowd {
    double seconds; // that were counted
    unsigned n;
    struct crowd_result *results; // shared memory
};

/// Starts a process for each role; when every context has run once, counts for `seconds`. Ends the
/// program with words when a client cannot even start.
void crowd_run(struct crowd *c, const char *uri, const struct crowd_role *roles, unsigned n,
               double seconds);
void crowd_done(struct crowd *c);

/// Of all clients together, runs in a second.
double crowd_rate(const struct crowd *c);

/// The latency that the part `at` (0 … 1) of a client's runs did not exceed.
double crowd_latency_us(struct crowd_result *r, double at);
