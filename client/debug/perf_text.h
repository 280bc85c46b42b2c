// The table of RKNN_QUERY_PERF_DETAIL.
#pragma once

#include "client/api/context.h"

/// Makes the text for the context's last run: columns and totals as the SDK guide shows them
/// (4.1.3.2, 5.3.2), then the operators by the time they took. Without layer times only the total.
/// *ret is malloc'ed.
int perf_text_make(struct context *c, char **ret, size_t *ret_size, struct error *e);

/// Writes it to the log, line by line.
void perf_text_log(struct context *c);
