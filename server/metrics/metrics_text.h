// Everything that can be counted, in Prometheus's text format, version 0.0.4. There may be 20,000
// lines of it, which are made in slices: what a turn of the loop does of it has a bound.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/text/growing_text.h"
#include "server/metrics/metrics_series.h"

struct reading;
struct services;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

// One that is being made. It stays where it is until metrics_text_end().
struct metrics_text {
    struct growing_text text;
    struct metrics_slices series;
};

/// `now`: what the machine's sensors say; NULL: they do not answer. On success it has to be ended.
int metrics_text_begin(struct metrics_text *t, const struct services *s, const struct reading *now,
                       struct error *e);

/// Adds a slice. False: nothing is left to be added.
bool metrics_text_more(struct metrics_text *t);

/// Ends it, whole or not. The caller frees *ret, whose size depends on models and users, never on
/// programs or connections. STATUS_MALLOC_FAIL: a part of it was lost, and there is none.
int metrics_text_end(struct metrics_text *t, char **ret, size_t *ret_size, struct error *e);

/// What was counted (enum metrics_total_of) by this daemon and those whose place it has taken.
uint64_t metrics_total(const struct services *s, unsigned which);
