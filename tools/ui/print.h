// What several commands print: servers, tensors, times, JSON.
#pragma once

#include <stdio.h>

#include <jansson.h>

#include "base/error.h"
#include "rknnd.h"
#include "tools/format/order_stats.h"
#include "tools/view/timing.h"

/// "tcp:HOST:PORT: rknnd 0.1.0, rk3588, 3 cores, sim" in one line, without a newline.
void print_server_line(const rknnd_server_info *info);

json_t *print_server_json(const rknnd_server_info *info);
json_t *print_status_json(const rknnd_server_status *status);
json_t *print_attr_json(const rknn_tensor_attr *attr);

/// One line "name   value" of a list.
void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// A line of n > 0 sorted times: the one, or median, quartiles, smallest and largest.
void print_times(const char *name, const uint64_t *sorted_us, uint32_t n);

/// A line with what a run would take on a chip, and how many a second that are, one after the
/// other; nothing where that is not known.
void print_estimate(const struct timing *t, uint64_t ns);

/// Prints text in which there may be names of a model or a server: what would not stay in its place
/// on a terminal becomes "?" (base/text/text.h), lines stay lines. Changes the text.
void print_text_shown(FILE *out, char *text);

/// A heading above lines.
void print_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Prints a JSON value and a newline to standard output, and frees it. NULL: out of memory while
/// it was made.
int print_json(json_t *value, struct error *e);

/// Text that need not be UTF-8, a file's name for example: then with '?' for what is not ASCII.
json_t *print_json_text(const char *text);

/// The time now: "2026-01-31T12:00:00Z".
json_t *print_json_date(void);

/// A number; null when it is not finite, which JSON has not.
json_t *print_json_number(double value);

/// Of n > 0 sorted values: {"min":…, "median":…, "p90":…, "p99":…, "max":…}, each divided by
/// `divisor`.
json_t *print_percentiles_json(const uint64_t *sorted, size_t n, double divisor);

/// The server that contexts use, and its counters.
int print_get_server(rknnd_server_info *info, struct error *e);
int print_get_status(rknnd_server_status *status, struct error *e);
