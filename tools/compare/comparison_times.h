// How long both models of a comparison take, layer by layer, with ratios.
#pragma once

#include <jansson.h>

#include "tools/run/measured.h"

// A layer of either model, or of both: then one after the other in the order of the first.
struct time_pair {
    const rknnd_layer *layer, *reference; // NULL: it has none of that name
    uint64_t us, reference_us;            // medians of what was measured
};

// A value of one column, if there is one (comparison_time_numbers).
struct time_number {
    bool there;
    double value;
};

// Chip times (measured by an NPU, or a software NPU's estimate) are compared with chip times,
// machine times with machine times.
enum time_column {
    TIME_MEASURED, // by an NPU
    TIME_ESTIMATE,
    TIME_MACHINE,
    TIME_REFERENCE_MEASURED,
    TIME_REFERENCE_ESTIMATE,
    TIME_REFERENCE_MACHINE,
    TIME_RATIO,
    TIME_MACHINE_RATIO,
    TIME_COLUMNS
};
extern const char *const comparison_time_titles[TIME_COLUMNS];

struct comparison_times {
    struct profile model, reference;
    struct time_pair *pairs;
    size_t n;
};

/// Runs both models on made-up inputs, each on its server. comparison_times_done() is safe after a
/// failure, and on a zeroed struct.
int comparison_times_measure(struct comparison_times *t, const struct profile_plan *model,
                             const char *server, const struct profile_plan *reference,
                             const char *reference_server, struct error *e);
void comparison_times_done(struct comparison_times *t);

/// The layer that a node of the first model is, by its name; NULL: its time is not known.
const struct time_pair *comparison_times_find(const struct comparison_times *t, const char *node);

/// Fills all columns of a pair: both sides' times, then the ratios of the model's to the
/// reference's.
void comparison_time_numbers(const struct comparison_times *t, const struct time_pair *p,
                             struct time_number ret[TIME_COLUMNS]);

int comparison_times_print(const struct comparison_times *t, struct error *e);

/// {"layers", "layers_us", "run_us", "total_us"}. NULL: out of memory.
json_t *comparison_times_json(const struct comparison_times *t);
