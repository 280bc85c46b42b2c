// Both ends of what is sent: nodes put, calibrations take. Whoever takes trusts nothing but the
// number of words, since a server may be of another version, or hostile.
#include "tensor/observe/observation.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SOME 64 // values

struct observation_form observation_form_of(uint64_t n, uint32_t n_channels, uint32_t stride,
                                            bool tails)
{
    return (struct observation_form){.n_channels = n_channels,
                                     .stride = stride,
                                     .n_values = stride ? (uint32_t)sampling_count(n, stride) : 0,
                                     .n_tails = tails && stride > 1 ? 2 * sampling_tail(n) : 0};
}

void observation_put(struct observation_form f, const struct observer *o, const uint32_t *counts,
                     const struct sampling_tails *t, int32_t *words)
{
    memcpy(words, &o->min, sizeof o->min);
    memcpy(words + 1, &o->max, sizeof o->max);
    memcpy(words + 2, &o->n, sizeof o->n);
    words[4] = (int32_t)(o->n_bad < INT32_MAX ? o->n_bad : INT32_MAX);
    words[5] = o->exponent;
    words[6] = (int32_t)f.n_channels;
    words[7] = f.bins ? OBSERVER_BINS : 0;
    words[8] = (int32_t)f.n_values;
    words[9] = (int32_t)f.stride;
    for (uint32_t side = 0; side < 2; side++)
        words[10 + side] = t ? (int32_t)(t->n[side] | t->level[side] << 16) : 0;
    words[12] = (int32_t)f.n_tails;
    words[13] = 0;
    memcpy(words + OBSERVATION_HEAD, o->sums, f.n_channels * sizeof *o->sums);
    if (counts)
        memcpy(words + OBSERVATION_HEAD + 2 * (size_t)f.n_channels, counts,
               OBSERVER_BINS * sizeof *counts);
}

// ---- taking; what a server sent may be anything ----

// What values may be.
struct observation_limits {
    float least, most;
};

// Bins are found by values, so these must lie within bounds. Servers compute with denormal floats
// as 0, so bounds may be 0 where values are such.
static struct observation_limits observation_limits_of(const struct observer *seen)
{
    return (struct observation_limits){seen->min - FLT_MIN, seen->max + FLT_MIN};
}

static bool observation_within(struct observation_limits l, const float *values, uint32_t n)
{
    int within = 1;
    for (uint32_t i = 0; i < n; i++)
        within &= (values[i] >= l.least) & (values[i] <= l.most);
    return within;
}

static int observation_outside(struct error *e)
{
    return error_set(e, STATUS_FAIL, "values lie outside of their bounds");
}

// Values without those of the tails, which are counted for themselves. Nearly all blocks have none
// of these and go as they are: one comparison tells that, and that they lie within the bounds.
static int observation_count(struct observer *o, const struct observer *seen, const float *values,
                             struct observation_form f, const struct sampling_tails *t,
                             struct error *e)
{
    const struct observation_limits all = observation_limits_of(seen);
    const struct observation_limits plain = {fmaxf(all.least, t->low), fminf(all.most, t->high)};
    int r = 0;
    for (uint32_t at = 0; at < f.n_values && r == 0; at += SOME) {
        uint32_t n = f.n_values - at < SOME ? f.n_values - at : SOME, kept = 0;
        float some[SOME];
        if (observation_within(plain, values + at, n)) {
            r = observer_count_values(o, values + at, n, f.stride, e);
            continue;
        }
        if (!observation_within(all, values + at, n))
            return observation_outside(e);
        for (uint32_t i = at; i < at + n; i++) {
            some[kept] = values[i];
            kept += values[i] >= t->low && values[i] <= t->high;
        }
        r = observer_count_values(o, some, kept, f.stride, e);
    }
    for (uint32_t side = 0; side < 2 && r == 0; side++)
        r = observer_count_values(o, t->values + side * t->most, t->n[side], 1, e);
    return r;
}

// How long tails are, and where they begin, is told by the server as a level, not as a number: so
// what is left out of the other values is what the same rule gives here.
static bool observation_read_tails(const struct observer *seen, struct observation_form f,
                                   const int32_t *words, float *values, struct sampling_tails *t)
{
    bool good = true;
    sampling_tails_begin(t, seen->n, seen->min, seen->max, values);
    for (uint32_t side = 0; side < 2; side++) {
        t->n[side] = (uint32_t)words[10 + side] & 0xffff;
        t->level[side] = f.n_tails ? (uint32_t)words[10 + side] >> 16 : SAMPLING_LEVELS;
        good = good && t->n[side] <= f.n_tails / 2 &&
               observation_within(observation_limits_of(seen), values + side * t->most, t->n[side]);
    }
    t->low = sampling_tail_start(seen->min, t->level[0], false);
    t->high = sampling_tail_start(seen->max, t->level[1], true);
    return good;
}

static int observation_count_checked(struct observer *o, const struct observer *seen,
                                     struct observation_form f, int32_t *words, struct error *e)
{
    struct sampling_tails t;
    const float *values = observation_values(f, words);
    return observation_read_tails(seen, f, words, observation_tail_values(f, words), &t)
               ? observation_count(o, seen, values, f, &t, e)
               : observation_outside(e);
}

// Bounds are finite, or those of no value at all. Where a value is not finite they say nothing.
static bool observation_bounds(const struct observer *seen)
{
    bool nothing = seen->min > FLT_MAX && seen->max < -FLT_MAX;
    return nothing || observer_is_bounded(seen);
}

static int observation_merge(struct observer *o, const int32_t *words,
                             const struct observation_form *f, struct error *e)
{
    struct observer seen = {.n_bad = (uint32_t)words[4]};
    const int32_t *sums = words + OBSERVATION_HEAD, *counts = sums + 2 * (size_t)f->n_channels;
    memcpy(&seen.min, words, sizeof seen.min);
    memcpy(&seen.max, words + 1, sizeof seen.max);
    memcpy(&seen.n, words + 2, sizeof seen.n);
    if (seen.n_bad) {
        seen.min = INFINITY;
        seen.max = -INFINITY;
    }
    if (!observation_bounds(&seen))
        return error_set(e, STATUS_FAIL, "bounds are not finite");
    observer_merge(o, &seen);
    if (f->bins)
        observer_add_counts(o, words[5], (const uint32_t *)counts);
    for (uint32_t c = 0; c < f->n_channels; c++) {
        double sum;
        memcpy(&sum, sums + 2 * (size_t)c, sizeof sum);
        o->sums[c] += sum;
    }
    o->n_summed += f->n_channels ? seen.n : 0;
    return seen.n_bad || !f->n_values
               ? 0
               : observation_count_checked(o, &seen, *f, (int32_t *)words, e);
}

uint32_t observation_channels(const int32_t *words, uint64_t n)
{
    uint32_t channels = n >= OBSERVATION_HEAD ? (uint32_t)words[6] : 0;
    return 2 * (uint64_t)channels <= n ? channels : 0;
}

// As observation_form_of() has it, without its divisions: this is asked of each tensor and sample.
static bool observation_is_form(const struct observation_form *f, uint64_t n)
{
    uint64_t all = (uint64_t)f->n_values * f->stride;
    uint32_t tails = f->n_tails && f->stride > 1 ? 2 * sampling_tail(n) : 0;
    bool counted = f->stride && n ? all >= n && all - f->stride < n : !f->n_values;
    return counted && f->n_tails == tails;
}

int observation_take(struct observer *o, const int32_t *words, uint64_t n, uint64_t *ret_taken,
                     struct error *e)
{
    if (n < OBSERVATION_HEAD || (words[6] && (uint32_t)words[6] != o->n_channels) || words[4] < 0 ||
        words[5] < OBSERVER_FINEST || words[5] > 128 || (words[7] && words[7] != OBSERVER_BINS))
        return error_set(e, STATUS_FAIL, "it is damaged");
    uint64_t seen;
    memcpy(&seen, words + 2, sizeof seen);
    const struct observation_form f = {.n_channels = (uint32_t)words[6],
                                       .bins = words[7] != 0,
                                       .stride = (uint32_t)words[9],
                                       .n_values = (uint32_t)words[8],
                                       .n_tails = (uint32_t)words[12]};
    *ret_taken = observation_words(f);
    return seen > UINT32_MAX || !observation_is_form(&f, seen) || n < *ret_taken
               ? error_set(e, STATUS_FAIL, "it is cut off")
               : observation_merge(o, words, &f, e);
}
