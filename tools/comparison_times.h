// How long both models of a comparison take, layer by layer.
#pragma once

#include <jansson.h>

#include "tools/profile.h"

// A layer of either model, or of both: then one after the other in the order of the first.
struct time_pair {
    const rknnd_layer *layer, *reference; // NULL: it has none of that name
    uint64_t us, reference_us;            // medians
};

struct comparison_times {
    struct profile model, reference;
    struct time_pair *pairs;
    size_t n;
};

/// Runs both models on made-up inputs, each on its server. comparison_times_done() is safe after a
/// failure, and on a zeroed struct.
int comparison_times_measure(struct comparison_times *t, const struct profile_plan *model,
                             const char *server, const struct profile_plan *reference,
                             const char *reference_server, struct failure *f);
void comparison_times_done(struct comparison_times *t);

/// The layer that a node of the first model is, by its name; NULL: its time is not known.
const struct time_pair *comparison_times_find(const struct comparison_times *t, const char *node);

/// us / reference_us; 0: one of them is not there, or too short to tell.
double time_ratio(uint64_t us, uint64_t reference_us);

int comparison_times_print(const struct comparison_times *t, struct failure *f);

/// {"layers", "layers_us", "run_us", "total_us"}. NULL: out of memory.
json_t *comparison_times_json(const struct comparison_times *t);
