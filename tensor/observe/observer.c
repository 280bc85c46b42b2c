// Values are taken in chunks that fit the first cache: bounds first, then the bins' numbers, both
// without branches, then the counts, in four tables in turn, so that equal values (the zeros behind
// a Relu) do not wait for each other.
#include "tensor/observe/observer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096
#define FEW   (8 * OBSERVER_BINS) // values for which clearing more tables costs more than they save

struct observer observer_empty(void)
{
    return (struct observer){.min = INFINITY, .max = -INFINITY, .exponent = OBSERVER_FINEST};
}

int observer_init(struct observer *o, uint32_t n_channels, struct error *e)
{
    *o = observer_empty();
    o->n_channels = n_channels;
    o->sums = calloc(n_channels + 1, sizeof *o->sums);
    o->bins = calloc(OBSERVER_BINS, sizeof *o->bins);
    return o->sums && o->bins ? 0 : error_no_memory(e, "a histogram", 0);
}

int observer_widen(struct observer *o, uint32_t n_channels, struct error *e)
{
    if (!n_channels || o->n_channels)
        return 0;
    double *sums = calloc((size_t)n_channels + 1, sizeof *sums);
    if (!sums)
        return error_no_memory(e, "means", n_channels);
    free(o->sums);
    o->sums = sums;
    o->n_channels = n_channels;
    return 0;
}

void observer_done(struct observer *o)
{
    free(o->sums);
    free(o->bins);
    *o = (struct observer){0};
}

// Makes bins 2^steps times as wide.
static void observer_coarsen(struct observer *o, int32_t exponent)
{
    int32_t steps = exponent - o->exponent;
    if (steps <= 0)
        return;
    uint64_t wide[OBSERVER_BINS] = {0};
    for (int32_t i = 0; i < OBSERVER_BINS; i++) {
        int32_t side = i - OBSERVER_SIDE;
        int32_t to = steps > 12  ? -(side < 0)
                     : side >= 0 ? side >> steps
                                 : -((-side - 1) >> steps) - 1;
        wide[to + OBSERVER_SIDE] += o->bins[i];
    }
    memcpy(o->bins, wide, sizeof wide);
    o->exponent = exponent;
}

// The least exponent with which |values| up to `most` have a bin.
static int32_t observer_exponent(float most)
{
    int power;
    if (!(most > 0))
        return OBSERVER_FINEST;
    frexpf(most, &power); // most < 2^power
    int32_t exponent = power - 11;
    return exponent < OBSERVER_FINEST ? OBSERVER_FINEST : exponent;
}

static struct observer_bounds observer_plain_bounds(const float *v, size_t n)
{
    return observer_bounds_of(v, n);
}

static void observer_plain_index(const float *v, size_t n, float factor, uint16_t *index)
{
    observer_index_of(v, n, factor, index);
}

static void observer_plain_sum(const float *v, uint64_t n, uint64_t inner, uint32_t n_channels,
                               double *sums)
{
    observer_sum_of(v, n, inner, n_channels, sums);
}

static const struct observer_parts observer_plain = {observer_plain_bounds, observer_plain_index,
                                                     observer_plain_sum};

static void observer_count(struct observer_scratch *s, size_t n)
{
    size_t i = 0;
    for (; s->n_tables == 4 && i + 4 <= n; i += 4) {
        s->bins[0][s->index[i]]++;
        s->bins[1][s->index[i + 1]]++;
        s->bins[2][s->index[i + 2]]++;
        s->bins[3][s->index[i + 3]]++;
    }
    for (; i < n; i++)
        s->bins[0][s->index[i]]++;
}

static void observer_clear(struct observer_scratch *s)
{
    memset(s->bins, 0, s->n_tables * sizeof *s->bins);
}

// What the tables have goes to the histogram.
static void observer_flush(struct observer *o, const struct observer_scratch *s)
{
    for (uint32_t t = 0; t < s->n_tables; t++)
        for (size_t i = 0; i < OBSERVER_BINS; i++)
            o->bins[i] += s->bins[t][i];
}

static void observer_chunk(struct observer *o, const float *v, size_t n, struct observer_scratch *s,
                           const struct observer_parts *parts)
{
    struct observer_bounds b = parts->bounds(v, n);
    o->n += n;
    if (b.n_bad) { // seldom, and the end of the calibration
        o->n_bad += b.n_bad;
        return;
    }
    o->min = b.min < o->min ? b.min : o->min;
    o->max = b.max > o->max ? b.max : o->max;
    int32_t exponent = observer_exponent(fmaxf(-b.min, b.max));
    if (exponent > o->exponent && o->bins) {
        observer_flush(o, s);
        observer_clear(s);
        observer_coarsen(o, exponent);
    }
    if (!o->bins)
        return;
    parts->index(v, n, ldexpf(1, -o->exponent), s->index);
    observer_count(s, n);
}

void observer_add(struct observer *o, const float *values, uint64_t n, uint64_t inner,
                  struct observer_scratch *scratch, const struct observer_parts *parts)
{
    parts = parts ? parts : &observer_plain;
    scratch->n_tables = !o->bins ? 0 : n < FEW ? 1 : 4;
    observer_clear(scratch);
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t left = n - at;
        observer_chunk(o, values + at, (size_t)(left < CHUNK ? left : CHUNK), scratch, parts);
    }
    if (o->bins)
        observer_flush(o, scratch);
    if (!o->n_channels || !inner || o->n_bad)
        return;
    parts->sum(values, n, inner, o->n_channels, o->sums);
    o->n_summed += n;
}

static void observer_merge_bins(struct observer *o, const struct observer *other)
{
    struct observer copy = *other;
    uint64_t bins[OBSERVER_BINS];
    memcpy(bins, other->bins, sizeof bins);
    copy.bins = bins;
    observer_coarsen(&copy, o->exponent);
    observer_coarsen(o, copy.exponent);
    for (size_t i = 0; i < OBSERVER_BINS; i++)
        o->bins[i] += bins[i];
}

void observer_merge(struct observer *o, const struct observer *other)
{
    if (other->bins)
        observer_merge_bins(o, other);
    o->min = other->min < o->min ? other->min : o->min;
    o->max = other->max > o->max ? other->max : o->max;
    o->n += other->n;
    o->n_bad += other->n_bad;
    o->n_summed += other->n_summed;
    for (uint32_t c = 0; c < o->n_channels && c < other->n_channels; c++)
        o->sums[c] += other->sums[c];
}
