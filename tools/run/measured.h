// A model's runs and layers, measured in one context, and shown.
#pragma once

#include "tools/run/frequencies.h"
#include "tools/run/heat.h"
#include "tools/task.h"
#include "tools/view/layers.h"

struct profile_plan {
    struct task task; // without inputs they are made up
    uint32_t loop, warmup, seed;
    const char *sort; // layers_sort(); NULL: as they are executed
};

struct profile {
    rknnd_server_info server;
    uint32_t n_runs;                        // fewer than planned after Ctrl-C, but one at least
    uint64_t *run_us, *queue_us, *total_us; // of each run, sorted
    struct layer_times layers;
    rknnd_list *layer_list; // of the last run
    uint64_t *layer_us;
    uint32_t *order;                // of the layers; NULL: that of execution
    uint64_t estimate_ns;           // of the last run; 0: not known
    struct frequencies frequencies; // right after the last run
    struct heat heat;               // as well
};

/// Runs the model with the times of its layers (RKNN_FLAG_COLLECT_PERF_MASK). After a failure *p
/// has the runs before it, if any; profile_done() is safe then.
int profile_measure(struct profile *p, const struct profile_plan *plan, struct error *e);
void profile_done(struct profile *p);

/// {"runs", "layers", "operators", "run_us", "frequencies", …}, for an object of the caller's.
/// NULL: out of memory.
json_t *profile_json(const struct profile *p);

/// Tables and totals as text.
int profile_print(const struct profile *p, struct error *e);
