// The lines of all series, in slices of about as many lines. Series only come: those that are there
// at the beginning are in each part. The lines of one series in one part are made at once, so that
// a histogram's agree with each other.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "server/metrics/metrics.h"

#define METRICS_SLICE_LINES 512 // of 110 bytes each, usually: 0.3 ms of a fast processor

// le="0.0001", and so on.
struct metrics_bound_labels {
    char text[METRICS_N_BUCKETS + 1][24];
};

// How far they are.
struct metrics_slices {
    const struct metrics *metrics;
    FILE *out;
    unsigned n_series;
    unsigned part, at; // the next one
    struct metrics_bound_labels bounds;
};

/// All lines that are not of a series, too.
void metrics_series_begin(struct metrics_slices *w, const struct metrics *m, FILE *out);

/// Writes the next ones. False: none are left.
bool metrics_series_more(struct metrics_slices *w);
