// Tables of a model's layers and their times: text, JSON, CSV. The columns are those of the SDK
// guide's tables (3.2.3); a software NPU has two columns of times (timing.h).
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "rknnd.h"
#include "tools/view/timing.h"

struct layer_times {
    const rknnd_list *layers; // of rknnd_layer
    uint32_t n_runs;
    const uint64_t *us; // [layer][run], each layer's sorted; NULL: one run, rknnd_layer.time_us
    struct timing timing;
    const uint32_t *order; // in which layers are shown; NULL: that of execution
};

/// The median of a layer's times.
uint64_t layers_median_us(const struct layer_times *t, uint32_t layer);

/// Sums over all layers: of medians, of estimates, of bytes read and written.
uint64_t layers_total_us(const struct layer_times *t);
uint64_t layers_estimate_ns(const struct layer_times *t);
uint64_t layers_total_bytes(const struct layer_times *t);

/// The order of layers for --sort: numbers descend, names ascend. *ret is the caller's to free.
int layers_sort(const struct layer_times *t, const char *by, uint32_t **ret, struct error *e);

/// What layers_sort() accepts. "time" is the measured time.
#define LAYERS_SORTS "execution, time, estimate, macs, usage, bytes, op, name"

/// Refuses, with the list, what layers_sort() does not accept.
int layers_check_sort(const char *by, struct error *e);

/// One row a layer. Columns that do not fit into `width` (0: no limit) are left out, and a line
/// says so. Returns 0, or -1 when memory ran out.
int layers_print(const struct layer_times *t, FILE *out, const char *indent, size_t width);

/// One row an operator, by descending time (the chip's estimate where there is one). As
/// layers_print.
int layers_print_ranking(const struct layer_times *t, FILE *out, const char *indent, size_t width);

/// layers_print's table as CSV.
void layers_csv(const struct layer_times *t, FILE *out);

/// Lists of objects. NULL: out of memory.
json_t *layers_json(const struct layer_times *t);
json_t *layers_ranking_json(const struct layer_times *t);
