// What bench_run() has measured, for people, programs and spreadsheets.
#pragma once

#include <jansson.h>

#include "rknnd.h"
#include "tools/bench/bench.h"

// A measurement with one number of clients of each model.
struct bench_point {
    uint32_t clients;
    struct bench_result result; // not empty
    struct bench_result *each;  // of each model, if there are several; else NULL. Some may be empty
};

enum bench_form { BENCH_TEXT, BENCH_JSON, BENCH_CSV };

/// Runs of all clients over the wall time; 0 when nothing was measured.
double bench_per_second(const struct bench_result *r);

/// What `--json` prints, for a page: the points are a list. NULL: out of memory.
json_t *bench_json(const struct bench_plan *plan, const rknnd_server_info *info,
                   const struct bench_point *points, size_t n);

/// Prints n > 0 points. `sweep`: as a list, also of one.
int bench_show(const struct bench_plan *plan, const rknnd_server_info *info,
               const struct bench_point *points, size_t n, bool sweep, enum bench_form form,
               struct error *e);

/// Writes every sample of the points, with the number of clients in front, for a spreadsheet.
int bench_write_samples(const char *path, const struct bench_point *points, size_t n,
                        struct error *e);
