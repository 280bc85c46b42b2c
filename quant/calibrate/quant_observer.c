// Values are taken in chunks that fit the first cache: bounds first, then the bins' numbers, both
// without branches, then the counts, in four tables in turn, so that equal values (the zeros behind
// a Relu) do not wait for each other.
#include "quant/calibrate/quant_observer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096

int quant_observer_init(struct quant_observer *o, uint32_t n_channels, struct error *e)
{
    *o = (struct quant_observer){.min = INFINITY,
                                 .max = -INFINITY,
                                 .exponent = QUANT_FINEST,
                                 .n_channels = n_channels,
                                 .sums = calloc(n_channels + 1, sizeof *o->sums),
                                 .bins = calloc(QUANT_BINS, sizeof *o->bins)};
    return o->sums && o->bins ? 0 : error_no_memory(e, "a histogram", 0);
}

void quant_observer_done(struct quant_observer *o)
{
    free(o->sums);
    free(o->bins);
    *o = (struct quant_observer){0};
}

// Makes bins 2^steps times as wide.
static void quant_observer_coarsen(struct quant_observer *o, int32_t exponent)
{
    int32_t steps = exponent - o->exponent;
    if (steps <= 0)
        return;
    uint64_t wide[QUANT_BINS] = {0};
    for (int32_t i = 0; i < QUANT_BINS; i++) {
        int32_t side = i - QUANT_SIDE;
        int32_t to = steps > 12  ? -(side < 0)
                     : side >= 0 ? side >> steps
                                 : -((-side - 1) >> steps) - 1;
        wide[to + QUANT_SIDE] += o->bins[i];
    }
    memcpy(o->bins, wide, sizeof wide);
    o->exponent = exponent;
}

// The least exponent with which |values| up to `most` have a bin.
static int32_t quant_observer_exponent(float most)
{
    int power;
    if (!(most > 0))
        return QUANT_FINEST;
    frexpf(most, &power); // most < 2^power
    int32_t exponent = power - 11;
    return exponent < QUANT_FINEST ? QUANT_FINEST : exponent;
}

struct quant_bounds {
    float min, max;
    uint32_t n_bad;
};

static struct quant_bounds quant_observer_bounds(const float *v, size_t n)
{
    struct quant_bounds b = {INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < n; i++) {
        b.min = v[i] < b.min ? v[i] : b.min;
        b.max = v[i] > b.max ? v[i] : b.max;
        b.n_bad += !(fabsf(v[i]) <= FLT_MAX);
    }
    return b;
}

// floor(v / 2^exponent) without a function for it: cut towards 0, and one less where that is above.
static void quant_observer_index(const float *v, size_t n, float factor, uint16_t *index)
{
    for (size_t i = 0; i < n; i++) {
        float scaled = v[i] * factor;
        int32_t cut = (int32_t)scaled;
        cut -= (float)cut > scaled;
        index[i] = (uint16_t)(cut + QUANT_SIDE);
    }
}

static void quant_observer_count(struct quant_scratch *s, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s->bins[0][s->index[i]]++;
        s->bins[1][s->index[i + 1]]++;
        s->bins[2][s->index[i + 2]]++;
        s->bins[3][s->index[i + 3]]++;
    }
    for (; i < n; i++)
        s->bins[0][s->index[i]]++;
}

// What the four tables have goes to the histogram.
static void quant_observer_flush(struct quant_observer *o, struct quant_scratch *s)
{
    for (size_t i = 0; i < QUANT_BINS; i++)
        o->bins[i] += (uint64_t)s->bins[0][i] + s->bins[1][i] + s->bins[2][i] + s->bins[3][i];
    memset(s->bins, 0, sizeof s->bins);
}

static void quant_observer_chunk(struct quant_observer *o, const float *v, size_t n,
                                 struct quant_scratch *s)
{
    struct quant_bounds b = quant_observer_bounds(v, n);
    o->n += n;
    if (b.n_bad) { // seldom, and the end of the calibration
        o->n_bad += b.n_bad;
        return;
    }
    o->min = b.min < o->min ? b.min : o->min;
    o->max = b.max > o->max ? b.max : o->max;
    int32_t exponent = quant_observer_exponent(fmaxf(-b.min, b.max));
    if (exponent > o->exponent) {
        quant_observer_flush(o, s);
        quant_observer_coarsen(o, exponent);
    }
    quant_observer_index(v, n, ldexpf(1, -o->exponent), s->index);
    quant_observer_count(s, n);
}

// In eight lanes, which compilers make vectors of.
static double quant_observer_total(const float *v, uint64_t n)
{
    double lanes[8] = {0}, total = 0;
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (uint64_t k = 0; k < 8; k++)
            lanes[k] += (double)v[i + k];
    for (; i < n; i++)
        total += (double)v[i];
    for (uint64_t k = 0; k < 8; k++)
        total += lanes[k];
    return total;
}

static void quant_observer_sum(struct quant_observer *o, const float *v, uint64_t n, uint64_t inner)
{
    uint32_t c = 0;
    for (uint64_t at = 0; at < n; at += inner) {
        o->sums[c] += quant_observer_total(v + at, inner < n - at ? inner : n - at);
        c = c + 1 == o->n_channels ? 0 : c + 1;
    }
}

void quant_observer_add(struct quant_observer *o, const float *values, uint64_t n, uint64_t inner,
                        struct quant_scratch *scratch)
{
    memset(scratch->bins, 0, sizeof scratch->bins);
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t left = n - at;
        quant_observer_chunk(o, values + at, (size_t)(left < CHUNK ? left : CHUNK), scratch);
    }
    quant_observer_flush(o, scratch);
    if (o->n_channels && inner && !o->n_bad)
        quant_observer_sum(o, values, n, inner);
}

void quant_observer_merge(struct quant_observer *o, const struct quant_observer *other)
{
    struct quant_observer copy = *other;
    uint64_t bins[QUANT_BINS];
    memcpy(bins, other->bins, sizeof bins);
    copy.bins = bins;
    quant_observer_coarsen(&copy, o->exponent);
    quant_observer_coarsen(o, copy.exponent);
    for (size_t i = 0; i < QUANT_BINS; i++)
        o->bins[i] += bins[i];
    o->min = copy.min < o->min ? copy.min : o->min;
    o->max = copy.max > o->max ? copy.max : o->max;
    o->n += copy.n;
    o->n_bad += copy.n_bad;
    for (uint32_t c = 0; c < o->n_channels && c < copy.n_channels; c++)
        o->sums[c] += copy.sums[c];
}
