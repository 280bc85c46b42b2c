// With AVX512 a chunk is read once (observe_kernels.c). Channels that do not fill vectors are taken
// as rows that do: of 6 channels 8 pixels at a time, whose 48 sums become 6 at the end. A sum that
// is not finite says that some value is not (or that there are very large ones): then the other
// way, which is that of other CPUs, looks at all of it again: bounds and sums one after the other,
// while a chunk is in the first cache.
#include "npu/sim/ops/observe/observe_look.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "npu/sim/ops/observe/observe_kernels.h"
#include "npu/sim/simd/kernel.h"

#define ROWS 64
#define FEW  64 // values that are looked at one by one where some lies in a tail

KERNEL(struct observer_bounds, observe_bounds, (const float *v, size_t n), (v, n))
{
    return observer_bounds_of(v, n);
}

KERNEL(void, observe_sum,
       (const float *v, uint64_t n, uint64_t inner, uint32_t n_channels, double *sums),
       (v, n, inner, n_channels, sums))
{
    observer_sum_of(v, n, inner, n_channels, sums);
}

// The place, a multiple of FEW, behind which the first value below or above is; n: there is none.
KERNEL(size_t, observe_find, (const float *v, size_t n, float low, float high), (v, n, low, high))
{
    for (size_t at = 0; at < n; at += FEW) {
        size_t some = n - at < FEW ? n - at : FEW;
        int beyond = 0;
        for (size_t i = 0; i < some; i++)
            beyond |= (v[at + i] < low) | (v[at + i] > high);
        if (beyond)
            return at;
    }
    return n;
}

// ---- whole tensors ----

struct looking {
    const struct observe_shape *s;
    const float *x;
    struct observed o;
    uint64_t at; // values before it were looked at
    bool failed; // by vectors: they are looked at in the other way, at the end
    double *lanes;
    struct observe_marks marks;   // for tails
    struct observe_bounds bounds; // where there are none
    uint64_t pick, n_picked;      // the next place, and how many there were
};

#define ROOM_OF_LOOKING ((sizeof(struct looking) + 63) / 64 * 64)

uint64_t observe_room(uint64_t n)
{
    return ROOM_OF_LOOKING + OBSERVE_LANES * sizeof(double) + observe_marks_room(n);
}

// The values before `to` were looked at.
static void looking_next(struct looking *k, uint64_t to)
{
    k->at = to;
    for (; k->pick < to; k->pick += k->s->layout.stride)
        k->o.values[k->n_picked++] = k->x[k->pick];
}

// Bounds of values, of which `b` tells no more.
static void looking_keep(struct looking *k, uint64_t from, uint64_t to,
                         const struct observe_bounds *b)
{
    if (k->s->tails)
        observe_marks_add_bounds(&k->marks, from, to, b);
    else
        observe_bounds_join(&k->bounds, b);
}

// Values whose bounds are found without their parts.
static void looking_next_plain(struct looking *k, uint64_t from, uint64_t to)
{
    struct observer_bounds seen = observe_bounds(k->x + from, to - from);
    struct observe_bounds b;
    k->o.bounds.n_bad += seen.n_bad;
    observe_bounds_begin(&b);
    b.min[0] = seen.min;
    b.max[0] = seen.max;
    looking_keep(k, from, to, &b);
    looking_next(k, to);
}

// Of large tensors a few vectors, so that a chunk is as long as it may be.
uint32_t observe_lanes(uint32_t n_channels, uint64_t n)
{
    uint32_t lanes = n_channels;
    while (lanes % 16 && lanes <= OBSERVE_LANES)
        lanes += n_channels;
    while (lanes < OBSERVE_CHUNK / ROWS && n >= 4 * OBSERVE_CHUNK)
        lanes *= 2;
    return lanes % 16 == 0 && (lanes == n_channels || lanes <= OBSERVE_LANES) ? lanes : 0;
}

// What is left of less than a row of lanes, from channel 0 on: so few values that their bounds need
// no parts, and sums no vectors.
static void looking_rest(struct looking *k, uint64_t from)
{
    uint64_t n = k->s->layout.n;
    for (uint64_t i = from, channel = 0; i < n; i++) {
        k->o.sums[channel] += (double)k->x[i];
        channel = channel + 1 < k->s->n_channels ? channel + 1 : 0;
    }
    if (from < n)
        looking_next_plain(k, from, n);
}

// Whole rows of lanes of the values before `end`. False: some value is not finite, or so large that
// a sum of floats is not.
static bool looking_rows(struct looking *k, uint64_t end)
{
    uint32_t channels = k->s->n_channels, lanes = k->s->lanes;
    if (!lanes)
        return false;
    uint64_t each = OBSERVE_CHUNK / lanes, whole = k->s->layout.n / lanes * lanes;
    double *sums = lanes == channels ? k->o.sums : k->lanes;
    if (!k->at)
        memset(sums, 0, lanes * sizeof *sums);
    uint64_t least = k->s->tails ? 1 : ROWS; // without tails it may be as long as it likes
    each = each < least ? least : each > ROWS ? ROWS : each;
    while (k->at < whole) {
        uint64_t rows = (whole - k->at) / lanes < each ? (whole - k->at) / lanes : each;
        if (k->at + rows * lanes > end)
            break;
        if (!(k->s->tails ? observe_rows_parts_avx512(k->x, k->at, rows, lanes, sums, &k->marks)
                          : observe_rows_avx512(k->x + k->at, rows, lanes, sums, &k->bounds)))
            return false;
        looking_next(k, k->at + rows * lanes);
    }
    return true;
}

// What is left of less than a row of lanes. Where rows are longer than the channels, the sums of
// the lanes that belong to one channel are added up.
static bool looking_end_rows(struct looking *k)
{
    uint32_t channels = k->s->n_channels, lanes = k->s->lanes;
    for (uint32_t i = 0; i < lanes && lanes != channels; i++)
        k->o.sums[i % channels] += k->lanes[i];
    looking_rest(k, k->at);
    return !k->o.bounds.n_bad;
}

static bool looking_flat(struct looking *k, uint64_t end)
{
    uint64_t n = k->s->layout.n;
    uint64_t each = k->s->tails ? 4 * OBSERVE_MARK : OBSERVE_CHUNK / 2;
    while (k->at < n) {
        uint64_t part = n - k->at < each ? n - k->at : each;
        if (k->at + part > end)
            break;
        if (!(k->s->tails ? observe_flat_parts_avx512(k->x, k->at, k->at + part, &k->marks)
                          : observe_flat_avx512(k->x + k->at, part, &k->bounds)))
            return false;
        looking_next(k, k->at + part);
    }
    return true;
}

// Planes shorter than a block share one; longer ones have several. Once all are there.
static bool looking_planes(struct looking *k)
{
    uint64_t n = k->s->layout.n, inner = k->s->inner;
    for (uint64_t from = 0, channel = 0; from < n; from += inner) {
        for (uint64_t at = 0; at < inner; at += OBSERVE_CHUNK) {
            uint64_t part = inner - at < OBSERVE_CHUNK ? inner - at : OBSERVE_CHUNK;
            struct observe_bounds b;
            observe_bounds_begin(&b);
            if (!observe_plane_avx512(k->x + from + at, part, &k->o.sums[channel], &b))
                return false;
            looking_keep(k, from + at, from + at + part, &b);
            looking_next(k, from + at + part);
        }
        channel = channel + 1 < k->s->n_channels ? channel + 1 : 0;
    }
    return true;
}

// Sums of whole rounds of channels that come near a chunk.
static void looking_plain(struct looking *k)
{
    uint64_t n = k->s->layout.n, round = k->s->n_channels * k->s->inner, each = OBSERVE_CHUNK;
    if (round)
        each = round < OBSERVE_CHUNK ? OBSERVE_CHUNK / round * round : round;
    for (uint64_t at = 0; at < n; at += each) {
        uint64_t part = n - at < each ? n - at : each;
        if (round)
            observe_sum(k->x + at, part, k->s->inner, k->s->n_channels, k->o.sums);
        looking_next_plain(k, at, at + part);
    }
}

// Each part that reaches beyond has a value there at least: levels that so have too many need no
// look at the values.
static void looking_choose_level(struct looking *k, bool above)
{
    struct sampling_tails *t = &k->o.tails;
    for (; t->level[above] < SAMPLING_LEVELS; sampling_tail_shorten(t, above)) {
        float low = above ? -INFINITY : t->low, high = above ? t->high : INFINITY;
        if (observe_marks_beyond(&k->marks, low, high, t->most) <= t->most)
            return;
    }
}

// The values of a part that lie in a tail, as it is by then.
static void looking_tails_in(struct looking *k, uint64_t from, uint64_t end)
{
    struct sampling_tails *t = &k->o.tails;
    if (kernel_has_avx512()) {
        observe_tails_avx512(t, k->x + from, end - from);
        return;
    }
    for (; from < end; from += FEW) {
        from += observe_find(k->x + from, end - from, t->low, t->high);
        if (from < end)
            sampling_tails_add(t, k->x + from, end - from < FEW ? end - from : FEW);
    }
}

// Far most tensors have their tails in few parts, and of the others the levels that are left are
// short: so of the values few are looked at again, 64 at a time first.
static void looking_tails(struct looking *k)
{
    struct sampling_tails *t = &k->o.tails;
    uint64_t i = 0;
    sampling_tails_begin(t, k->s->layout.n, k->o.bounds.min, k->o.bounds.max, t->values);
    looking_choose_level(k, false);
    looking_choose_level(k, true);
    for (; (i = observe_marks_next(&k->marks, i, t->low, t->high)) < k->marks.n; i++)
        looking_tails_in(k, i ? k->marks.end[i - 1] : 0, k->marks.end[i]);
}

// Of numbers of one sign the least unsigned one is the nearest to 0.
KERNEL(float, observe_nearest, (const float *v, uint64_t n), (v, n))
{
    uint32_t first = UINT32_MAX, bits;
    float nearest;
    for (uint64_t at = 0; at < n && first; at += OBSERVE_STEP) {
        uint64_t some = n - at < OBSERVE_STEP ? n - at : OBSERVE_STEP;
        for (uint64_t i = at; i < at + some; i++) {
            memcpy(&bits, v + i, sizeof bits);
            first = bits < first ? bits : first;
        }
    }
    memcpy(&nearest, &first, sizeof nearest);
    return nearest;
}

// What a look at values as integers did not tell (struct observe_words): of most tensors little,
// since a Relu leaves some 0 soon.
static void looking_ends(struct looking *k)
{
    struct observer_bounds *b = &k->o.bounds;
    if (!signbit(b->min))
        b->min = observe_nearest(k->x, k->s->layout.n);
    else if (signbit(b->max))
        b->max = observe_nearest(k->x, k->s->layout.n);
}

static void looking_begin(struct looking *k)
{
    k->o.bounds = (struct observer_bounds){INFINITY, -INFINITY, 0};
    k->at = k->n_picked = k->marks.n = 0;
    k->pick = k->s->layout.stride && !k->s->layout.rows ? 0 : UINT64_MAX; // planes are turned later
    observe_bounds_begin(&k->bounds);
    memset(k->o.sums, 0, k->s->n_channels * sizeof *k->o.sums);
}

void observe_begin(const struct observe_shape *s, const float *x, void *room,
                   const struct observed *o)
{
    struct looking *k = room;
    *k = (struct looking){.s = s, .x = x, .o = *o, .failed = !kernel_has_avx512()};
    k->lanes = (double *)((char *)room + ROOM_OF_LOOKING);
    k->marks = observe_marks_in(k->lanes + OBSERVE_LANES, s->layout.n);
    looking_begin(k);
}

uint64_t observe_go_on(void *room, uint64_t n)
{
    struct looking *k = room;
    if (k->failed || (k->s->n_channels && k->s->inner > 1))
        return UINT64_MAX;
    k->failed = !(k->s->n_channels ? looking_rows : looking_flat)(k, n);
    return k->at + OBSERVE_STEP;
}

// What was not looked at while it was written, and what takes all values.
static bool looking_end(struct looking *k)
{
    observe_go_on(k, k->s->layout.n);
    if (k->failed || !k->s->n_channels)
        return !k->failed;
    return k->s->inner == 1 ? looking_end_rows(k) : looking_planes(k);
}

void observe_end(void *room, struct observed *o)
{
    struct looking *k = room;
    const struct observe_shape *s = k->s;
    bool seen = looking_end(k);
    if (!seen) {
        looking_begin(k);
        looking_plain(k);
    }
    if (s->tails)
        observe_marks_join(&k->marks, &k->o.bounds);
    else
        observe_bounds_take(&k->bounds, &k->o.bounds);
    if (seen && (!s->n_channels || s->inner == 1))
        looking_ends(k);
    if (s->layout.stride && !k->o.bounds.n_bad) {
        if (s->layout.rows)
            sampling_pick_all(k->x, &s->layout, k->o.values);
        if (s->tails)
            looking_tails(k);
    }
    *o = k->o;
}
