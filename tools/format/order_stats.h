// Order statistics of measured times.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Sorts in place, ascending.
void stats_sort(uint64_t *values, size_t n);

/// The smallest value that at least `permille` (0..1000), or `percent`, of the sorted values do not
/// exceed (nearest-rank). `n` is at least 1.
uint64_t stats_permille(const uint64_t *sorted, size_t n, unsigned permille);
uint64_t stats_percentile(const uint64_t *sorted, size_t n, unsigned percent);
