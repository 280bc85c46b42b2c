// The rule is one of places and values alone, so that it gives the same of a tensor wherever it is
// applied: by nodes of a server whose memory has channels last, by those that have planes, and
// here, to what a dump shows.
#include "tensor/observe/sampling.h"

#include <math.h>

// The largest common factor.
static uint64_t sampling_common(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Tried one after the other: of any few numbers that follow each other one has no common factor.
uint64_t sampling_stride(uint64_t n, uint64_t most)
{
    uint64_t k = most ? n / most + (n % most > 0) : 1;
    k = k ? k : 1;
    while (sampling_common(n, k) > 1)
        k++;
    return k;
}

// Only planes lie otherwise than values are numbered; of single pixels both orders are the same.
void sampling_lay(struct sampling_layout *l, uint32_t n_channels, uint64_t inner)
{
    l->rows = l->columns = 0;
    if (n_channels && inner > 1) { // planes, which are to be counted as pixels
        l->rows = inner;
        l->columns = n_channels;
    }
}

// Place `at` is a row and a column, the next one k more: neither needs a division.
// In planes, values that follow each other in number lie a plane apart: those of one pixel.
// Batches, of `each` values, are not turned.
static void sampling_pick_turned(const float *v, const struct sampling_layout *l, float *picked)
{
    uint64_t row = 0, column = 0, base = 0, each = l->rows * l->columns;
    uint64_t more_rows = l->stride / l->columns, more_columns = l->stride % l->columns;
    for (uint64_t at = 0; at < l->n; at += l->stride) {
        *picked++ = v[base + column * l->rows + row];
        row += more_rows;
        column += more_columns;
        if (column >= l->columns) {
            column -= l->columns;
            row++;
        }
        for (; row >= l->rows; row -= l->rows)
            base += each;
    }
}

void sampling_pick_all(const float *v, const struct sampling_layout *l, float *picked)
{
    if (l->rows)
        sampling_pick_turned(v, l, picked);
    for (uint64_t at = 0; at < l->n && !l->rows; at += l->stride)
        *picked++ = v[at];
}

float sampling_tail_start(float end, uint32_t level, bool above)
{
    static const float parts[SAMPLING_LEVELS] = {0.25F, 0.5F, 0.75F, 0.875F};
    bool there = level < SAMPLING_LEVELS && (above ? end > 0 : end < 0);
    return there ? parts[level] * end : above ? INFINITY : -INFINITY;
}

void sampling_tails_begin(struct sampling_tails *t, uint64_t n, float min, float max, float *values)
{
    *t = (struct sampling_tails){.low = sampling_tail_start(min, 0, false),
                                 .high = sampling_tail_start(max, 0, true),
                                 .min = min,
                                 .max = max,
                                 .most = sampling_tail(n),
                                 .values = values};
}

void sampling_tail_shorten(struct sampling_tails *t, bool above)
{
    float *values = t->values + above * t->most;
    uint32_t n = t->n[above], kept = 0, level = ++t->level[above];
    float start = sampling_tail_start(above ? t->max : t->min, level, above);
    for (uint32_t i = 0; i < n; i++) {
        values[kept] = values[i];
        kept += above ? values[i] > start : values[i] < start;
    }
    t->n[above] = kept;
    *(above ? &t->high : &t->low) = start;
}

// A tail that is full gives way to a shorter one before the next value is put, so which values come
// first does not matter: the level that is left is the first one with room for all of its values.
static void sampling_tail_put(struct sampling_tails *t, bool above, float v)
{
    float *start = above ? &t->high : &t->low;
    while (t->n[above] == t->most && (above ? v > *start : v < *start))
        sampling_tail_shorten(t, above);
    if (above ? v > *start : v < *start)
        t->values[above * t->most + t->n[above]++] = v;
}

void sampling_tails_put(struct sampling_tails *t, float v)
{
    if (v > t->high || v < t->low)
        sampling_tail_put(t, v > t->high, v);
}

void sampling_tails_add(struct sampling_tails *t, const float *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sampling_tails_put(t, v[i]);
}
