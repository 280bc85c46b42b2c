// Values are taken in blocks that fit the second cache: their bounds tell how wide bins must be.
// Then, in chunks that fit the first one, the bins' numbers, without branches, and the counts, in
// four tables in turn, so that equal values (the zeros behind a Relu) do not wait for each other.
#include "tensor/observe/observer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096
#define BLOCK (32 * CHUNK)
#define FEW   OBSERVER_BINS // values for which clearing more tables costs more than they save
#define SOME  64            // bins

int observer_init(struct observer *o, uint32_t n_channels, struct error *e)
{
    *o = (struct observer){.min = INFINITY, .max = -INFINITY, .exponent = OBSERVER_FINEST};
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
    free(o->waiting[0].values);
    free(o->waiting[1].values);
    *o = (struct observer){0};
}

// The bin that holds bin i when bins are 2^steps times as wide.
static int32_t observer_wider(int32_t i, int32_t steps)
{
    int32_t side = i - OBSERVER_SIDE;
    int32_t to = steps > 12 ? -(side < 0) : side >= 0 ? side >> steps : -((-side - 1) >> steps) - 1;
    return to + OBSERVER_SIDE;
}

// Makes bins 2^steps times as wide.
static void observer_coarsen(struct observer *o, int32_t exponent)
{
    int32_t steps = exponent - o->exponent;
    if (steps <= 0)
        return;
    o->exponent = exponent;
    if (!o->counted)
        return;
    if (steps > 12) { // two bins are left
        uint64_t below = 0, above = 0;
        for (int32_t i = 0; i < OBSERVER_SIDE; i++) {
            below += o->bins[i];
            above += o->bins[OBSERVER_SIDE + i];
        }
        memset(o->bins, 0, OBSERVER_BINS * sizeof *o->bins);
        o->bins[OBSERVER_SIDE - 1] = below;
        o->bins[OBSERVER_SIDE] = above;
        return;
    }
    uint64_t wide[OBSERVER_BINS] = {0};
    for (int32_t i = 0; i < OBSERVER_BINS; i++)
        wide[observer_wider(i, steps)] += o->bins[i];
    memcpy(o->bins, wide, sizeof wide);
}

void observer_add_counts(struct observer *o, int32_t exponent, const uint32_t *counts)
{
    observer_coarsen(o, exponent);
    o->counted = true;
    int32_t steps = o->exponent - exponent;
    for (int32_t i = 0; i < OBSERVER_BINS && steps > 0; i++)
        o->bins[observer_wider(i, steps)] += counts[i];
    for (int32_t at = 0; at < OBSERVER_BINS && steps == 0; at += SOME) {
        uint32_t any = 0; // most are empty, and half of them where there are no negative numbers
        for (int32_t i = at; i < at + SOME; i++)
            any |= counts[i];
        for (int32_t i = at; i < at + SOME && any; i++)
            o->bins[i] += counts[i];
    }
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

static void observer_plain_join(uint32_t (*tables)[OBSERVER_BINS])
{
    observer_join_of(tables);
}

static const struct observer_parts observer_plain = {observer_plain_bounds, observer_plain_index,
                                                     observer_plain_join};

static void observer_count(struct observer_scratch *s, size_t n)
{
    size_t i = 0;
    for (; s->n_tables == 4 && i + 4 <= n; i += 4) {
        uint64_t four; // one load instead of four
        memcpy(&four, s->index + i, sizeof four);
        s->bins[0][(uint16_t)four]++;
        s->bins[1][(uint16_t)(four >> 16)]++;
        s->bins[2][(uint16_t)(four >> 32)]++;
        s->bins[3][four >> 48]++;
    }
    for (; i < n; i++)
        s->bins[0][s->index[i]]++;
}

static void observer_join(struct observer_scratch *s, const struct observer_parts *parts)
{
    if (s->n_tables == 4)
        parts->join(s->bins);
}

// Bins of what was counted before become as wide as those of the next values.
static void observer_widen_tables(struct observer_scratch *s, int32_t exponent,
                                  const struct observer_parts *parts)
{
    uint32_t wide[OBSERVER_BINS] = {0};
    observer_join(s, parts);
    for (int32_t i = 0; i < OBSERVER_BINS; i++)
        wide[observer_wider(i, exponent - s->exponent)] += s->bins[0][i];
    memset(s->bins, 0, s->n_tables * sizeof *s->bins);
    memcpy(s->bins[0], wide, sizeof wide);
}

static void observer_count_block(struct observer_scratch *s, const float *v, size_t n,
                                 const struct observer_parts *parts)
{
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t chunk = n - at < CHUNK ? n - at : CHUNK;
        parts->index(v + at, chunk, ldexpf(1, -s->exponent), s->index);
        observer_count(s, chunk);
    }
}

struct observer_bounds observer_look(const float *values, uint64_t n, bool counts,
                                     struct observer_scratch *s, const struct observer_parts *parts)
{
    struct observer_bounds all = {INFINITY, -INFINITY, 0};
    parts = parts ? parts : &observer_plain;
    s->n_tables = !counts ? 0 : n < FEW ? 1 : 4;
    s->exponent = OBSERVER_FINEST;
    memset(s->bins, 0, s->n_tables * sizeof *s->bins);
    for (uint64_t at = 0; at < n; at += BLOCK) {
        size_t block = (size_t)(n - at < BLOCK ? n - at : BLOCK);
        struct observer_bounds b = parts->bounds(values + at, block);
        all.n_bad += b.n_bad;
        if (all.n_bad) // seldom, and the end of the calibration
            continue;
        all.min = b.min < all.min ? b.min : all.min;
        all.max = b.max > all.max ? b.max : all.max;
        if (!counts)
            continue;
        int32_t exponent = observer_exponent(fmaxf(-b.min, b.max));
        if (exponent > s->exponent && at)
            observer_widen_tables(s, exponent, parts);
        s->exponent = exponent > s->exponent ? exponent : s->exponent;
        observer_count_block(s, values + at, block, parts);
    }
    if (counts)
        observer_join(s, parts);
    return all;
}

// Bins that follow each other are mostly all empty: half of them where there are no negative
// numbers.
static void observer_add_tables(uint64_t *bins, uint16_t (*tables)[OBSERVER_BINS], uint32_t weight)
{
    for (int32_t at = 0; at < OBSERVER_BINS; at += SOME) {
        uint16_t counts[SOME], any = 0;
        for (int32_t i = 0; i < SOME; i++) {
            counts[i] = (uint16_t)(tables[0][at + i] + tables[1][at + i] + tables[2][at + i] +
                                   tables[3][at + i]);
            any |= counts[i];
        }
        for (int32_t i = 0; i < SOME && any; i++)
            bins[at + i] += (uint64_t)counts[i] * weight;
    }
}

// Fewer than 2^16 values: so all tables fit the first cache.
static void observer_count_many(uint64_t *bins, const uint16_t *index, uint64_t n, uint32_t weight)
{
    uint16_t tables[4][OBSERVER_BINS] = {0};
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (uint64_t k = 0; k < 4; k++)
            tables[k][index[i + k]]++;
    for (; i < n; i++)
        tables[0][index[i]]++;
    observer_add_tables(bins, tables, weight);
}

// Bins are as wide as all values need that have been seen, also those that are not counted: so
// widths do not depend on which are. Adding a weight is as exact as adding one that many times.
// Clearing tables and adding them up takes as long as counting 1000 values.
void observer_count_now(struct observer *o, const float *values, uint64_t n, uint32_t weight)
{
    uint16_t index[OBSERVER_WAITING];
    if (!n)
        return;
    observer_coarsen(o, observer_exponent(fmaxf(-o->min, o->max)));
    o->counted = true;
    float factor = ldexpf(1, -o->exponent);
    for (uint64_t at = 0; at < n; at += OBSERVER_WAITING) {
        uint64_t some = n - at < OBSERVER_WAITING ? n - at : OBSERVER_WAITING;
        observer_index_of(values + at, (size_t)some, factor, index);
        if (some >= 1024)
            observer_count_many(o->bins, index, some, weight);
        for (uint64_t i = 0; i < some && some < 1024; i++)
            o->bins[index[i]] += weight;
    }
}

static void observer_flush_one(struct observer *o, struct observer_waiting *w)
{
    observer_count_now(o, w->values, w->n, w->weight);
    w->n = 0;
}

void observer_flush(struct observer *o)
{
    observer_flush_one(o, &o->waiting[0]);
    observer_flush_one(o, &o->waiting[1]);
}

// Few values at a time would be far from each other in many histograms, which no cache holds.
int observer_count_values(struct observer *o, const float *values, uint64_t n, uint32_t weight,
                          struct error *e)
{
    struct observer_waiting *w = &o->waiting[weight == 1];
    if (!w->values && n && !(w->values = malloc(OBSERVER_WAITING * sizeof *w->values)))
        return error_no_memory(e, "values", OBSERVER_WAITING);
    if (w->weight != weight)
        observer_flush_one(o, w);
    w->weight = weight;
    for (uint64_t at = 0, some; at < n; at += some) {
        uint64_t room = OBSERVER_WAITING - w->n;
        some = n - at < room ? n - at : room;
        memcpy(w->values + w->n, values + at, (size_t)some * sizeof *values);
        w->n += (uint32_t)some;
        if (w->n == OBSERVER_WAITING)
            observer_flush_one(o, w);
    }
    return 0;
}

void observer_add(struct observer *o, const float *values, uint64_t n, uint64_t inner,
                  struct observer_scratch *scratch)
{
    struct observer_bounds b = observer_look(values, n, true, scratch, NULL);
    o->n += n;
    o->n_bad += b.n_bad;
    if (o->n_bad)
        return;
    o->min = b.min < o->min ? b.min : o->min;
    o->max = b.max > o->max ? b.max : o->max;
    observer_add_counts(o, scratch->exponent, scratch->bins[0]);
    if (!o->n_channels || !inner)
        return;
    observer_sum_of(values, n, inner, o->n_channels, o->sums);
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
    o->counted |= other->counted;
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
