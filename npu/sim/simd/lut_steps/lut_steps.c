// Finding the steps of a table (lut_steps.h), and the segments with the fewest in each.
//
// Tests: test_sim_lut.
#include "npu/sim/simd/lut_steps/lut_steps.h"

#include <math.h>
#include <string.h>

#define MOST_CHANGES       1024
#define MOST_NUMBERS       (1 << 16)
#define NEVER              UINT8_MAX // a low byte is never above
#define LUT_ROUNDER_DOUBLE 0x1.8p52
#define NARROW             128 // segments whose bytes are looked up by one instruction

// A step by one, up or down: `at` is the first position behind it.
struct change {
    uint32_t at;
    bool falls;
};

struct changes {
    const struct lut_kernel *k;
    const int8_t *dense;
    bool of_v;
    int32_t low, high; // all numbers beyond become what these become
    uint32_t n;
    struct change all[MOST_CHANGES];
};

// Doubles near LUT_ROUNDER_DOUBLE have units of 1: its sum with another one is rounded as the chip
// does it.
static int32_t steps_to_table(const struct changes *c, int32_t number)
{
    if (!c->of_v)
        return number;
    double w = number * (double)c->k->bn + LUT_ROUNDER_DOUBLE - LUT_ROUNDER_DOUBLE;
    return w < c->k->bounds[0]   ? c->k->bounds[0]
           : w > c->k->bounds[1] ? c->k->bounds[1]
                                 : (int32_t)w;
}

static int8_t steps_stored(const struct changes *c, int32_t number)
{
    int32_t w = steps_to_table(c, number);
    return w >= -LUT_REACH && w < LUT_REACH ? c->dense[w + LUT_REACH] : lut_stored(c->k->lut, w);
}

// Whether nothing but a line lies between two numbers, on which outcomes never turn back.
static bool steps_is_line(const struct changes *c, int32_t from, int32_t to)
{
    return steps_to_table(c, from) >= LUT_REACH || steps_to_table(c, to) < -LUT_REACH;
}

// The first number behind `from` that becomes something else, or the one behind `to`: by halves on
// lines, else one by one.
static int32_t steps_next(const struct changes *c, int32_t from, int32_t to)
{
    int8_t stored = steps_stored(c, from);
    while (from < to && !steps_is_line(c, from, to)) {
        if (steps_stored(c, from + 1) != stored)
            return from + 1;
        from++;
    }
    if (from == to || steps_stored(c, to) == stored)
        return to + 1;
    while (to - from > 1) {
        int32_t middle = from + (to - from) / 2;
        *(steps_stored(c, middle) == stored ? &from : &to) = middle;
    }
    return to;
}

// Where the first stage's results are fewer than the table's numbers, these are taken.
static void steps_take_numbers(const struct lut_kernel *k, struct changes *c)
{
    double bn = (double)k->bn;
    c->of_v = bn > 1;
    c->low = c->of_v ? (int32_t)floor(k->bounds[0] / bn) - 1 : k->bounds[0];
    c->high = c->of_v ? (int32_t)ceil(k->bounds[1] / bn) + 1 : k->bounds[1];
}

// False: there are too many.
static bool steps_add(struct changes *c, int32_t number, int step)
{
    for (int i = 0; i < (step < 0 ? -step : step); i++) {
        if (c->n == MOST_CHANGES)
            return false;
        c->all[c->n++] = (struct change){(uint32_t)number, step < 0};
    }
    return true;
}

// All changes, as positions from the number before the first one on.
static bool steps_find_changes(struct changes *c, struct lut_steps *ret)
{
    if (c->high - c->low >= 2 * MOST_NUMBERS)
        return false;
    int32_t number = c->low, next;
    for (; (next = steps_next(c, number, c->high)) <= c->high; number = next)
        if (!steps_add(c, next, steps_stored(c, next) - steps_stored(c, number)))
            return false;
    ret->of_v = c->of_v;
    ret->first = c->n ? (int32_t)c->all[0].at - 1 : c->low;
    ret->last = c->n ? (int32_t)c->all[c->n - 1].at : c->low;
    for (uint32_t i = 0; i < c->n; i++) {
        c->all[i].at -= (uint32_t)ret->first;
        if (i && c->all[i].falls && !c->all[i - 1].falls)
            return false;
    }
    return ret->last - ret->first < MOST_NUMBERS;
}

// Whether a change lies inside a segment, not at its beginning, which is its base's.
static bool steps_is_inside(const struct change *change, uint32_t bits)
{
    return change->at & ((1u << bits) - 1);
}

// Counts the most steps of a segment, and finds the last one that falls. False: one falls and
// rises.
static bool steps_count(const struct changes *c, struct lut_steps *s)
{
    uint32_t n = 0, segment = 0;
    bool rises = false;
    s->most = 1;
    s->falls = false;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct change *change = &c->all[i];
        if (!steps_is_inside(change, s->bits))
            continue;
        bool same = n && change->at >> s->bits == segment;
        if (same && !change->falls && s->falls && !rises)
            return false;
        segment = change->at >> s->bits;
        n = same ? n + 1 : 1;
        s->most = n > s->most ? n : s->most;
        s->falls = s->falls || change->falls;
        s->turned = (uint8_t)(change->falls ? segment : s->turned);
        rises = rises || !change->falls;
    }
    return true;
}

// Bytes are compared in `at`, and added to `base`.
static void steps_fill(const struct changes *c, struct lut_steps *s)
{
    uint8_t stored = (uint8_t)steps_stored(c, s->first);
    uint32_t next = 0;
    memset(s->at, NEVER, sizeof s->at);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t end = (i + 1) << s->bits, n = 0;
        for (; next < c->n && c->all[next].at <= i << s->bits; next++)
            stored = (uint8_t)(stored + (c->all[next].falls ? -1 : 1));
        s->base[i] = stored;
        for (; next < c->n && c->all[next].at < end; next++) {
            uint8_t low = (uint8_t)c->all[next].at;
            bool falls = c->all[next].falls;
            s->at[n++][i] = (uint8_t)(falls ? UINT8_MAX - low : low - 1);
            s->base[i] = (uint8_t)(s->base[i] - falls);
            stored = (uint8_t)(stored + (falls ? -1 : 1));
        }
    }
}

// Instructions for 64 sums, about.
static uint32_t steps_cost(const struct lut_steps *s)
{
    return s->n == NARROW ? 26 + 3 * s->most : 29 + 5 * s->most;
}

bool lut_find_steps(const struct lut_kernel *k, const int8_t dense[LUT_N_DENSE],
                    struct lut_steps *ret)
{
    struct changes c = {.k = k, .dense = dense};
    struct lut_steps next = {0}, best = {0};
    steps_take_numbers(k, &c);
    if (!steps_find_changes(&c, &next))
        return false;
    for (next.n = NARROW; next.n <= LUT_STEPS_SEGMENTS; next.n *= 2)
        for (next.bits = 0; next.bits <= 8; next.bits++) {
            uint32_t most = next.n == NARROW ? LUT_STEPS_MOST : LUT_STEPS_MOST_WIDE;
            if ((uint32_t)(next.last - next.first) >> next.bits >= next.n ||
                !steps_count(&c, &next) || next.most > most)
                continue;
            if (!best.n || steps_cost(&next) < steps_cost(&best))
                best = next;
        }
    if (!best.n)
        return false;
    *ret = best;
    steps_fill(&c, ret);
    return true;
}
