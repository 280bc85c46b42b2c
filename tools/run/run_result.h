// The result of `rknnctl run`, filled by run_model.c and shown by run_text.c and run_json.c. All
// pointers belong to the run's state.
#pragma once

#include "rknnd.h"
#include "tools/format/values.h"
#include "tools/input/input_set.h"
#include "tools/run/open_model.h"
#include "tools/view/timing.h"

#define RUN_MAX_TOP 100

struct run_output {
    char *file; // written; NULL: none
    struct value_range range;
    size_t n_top;
    struct value top[RUN_MAX_TOP];
};

// Of every run in microseconds, sorted.
struct run_times {
    uint32_t n, n_repeated; // runs, and how many of them were done twice (a worker died)
    uint64_t *queue_us, *run_us, *total_us;
    struct timing timing; // whose run_us is
    uint64_t estimate_ns; // of the last run; 0: not known
};

struct run_result {
    rknnd_server_info server;
    const struct model *model;
    const struct input_set *inputs;
    struct run_output *outputs; // one for each of the model's
    struct run_times times;
    bool has_perf; // the rest is only filled then
    rknn_mem_size memory;
    rknnd_list *layers; // of rknnd_layer
};

/// Text on standard output, lines as wide as the terminal.
int run_result_print(const struct run_result *r, struct error *e);

/// The same as JSON.
int run_result_print_json(const struct run_result *r, struct error *e);
