// Whether a measurement with a rate asked for more than could be done. It needs no server, unlike
// the rest of bench.h.
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/bench/bench.h"
#include "tools/format/order_stats.h"

static int by_start(const void *a, const void *b)
{
    const struct bench_sample *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static uint64_t latency_of(const struct bench_sample *s)
{
    return s->latency_ns;
}

static uint64_t lateness_of(const struct bench_sample *s)
{
    return s->late_ns;
}

// `room`: for n values.
static uint64_t median_of(uint64_t (*of)(const struct bench_sample *s),
                          const struct bench_sample *samples, size_t n, uint64_t *room)
{
    for (size_t i = 0; i < n; i++)
        room[i] = of(&samples[i]);
    stats_sort(room, n);
    return stats_percentile(room, n, 50);
}

// What was asked for last waited for a tenth of the time and more until a client was free: at the
// end there was a queue. Runs that are slow by themselves are none, nor are a few that chance has
// asked for at once, where as many as were asked for have been done.
bool bench_is_overrun(const struct bench_result *r, double asked, uint64_t *ret_before,
                      uint64_t *ret_after)
{
    size_t part = r->n / 4;
    if (r->n < 8 || (double)r->n * 1e9 >= asked * (double)r->wall_ns)
        return false;
    cleanup(free_p) struct bench_sample *samples = malloc(r->n * sizeof *samples);
    cleanup(free_p) uint64_t *room = malloc(part * sizeof *room);
    if (!samples || !room)
        return false;
    memcpy(samples, r->samples, r->n * sizeof *samples);
    qsort(samples, r->n, sizeof *samples, by_start);
    *ret_before = median_of(latency_of, samples, part, room);
    *ret_after = median_of(latency_of, samples + r->n - part, part, room);
    return median_of(lateness_of, samples + r->n - part, part, room) > r->wall_ns / 10;
}
