// Order statistics of measured times: medians and percentiles, not means, because times have
// outliers on one side.
#include "tools/format/order_stats.h"

#include <stdlib.h>

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void stats_sort(uint64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_numbers);
}

// Nearest rank; 0 is the minimum.
uint64_t stats_permille(const uint64_t *sorted, size_t n, unsigned permille)
{
    size_t rank = (n * permille + 999) / 1000;
    return sorted[rank ? rank - 1 : 0];
}

uint64_t stats_percentile(const uint64_t *sorted, size_t n, unsigned percent)
{
    return stats_permille(sorted, n, percent * 10);
}
