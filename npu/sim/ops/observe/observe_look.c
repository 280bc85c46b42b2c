// With AVX512 a chunk is read once: bounds and sums are of vectors that stay in registers, sums as
// floats for at most 64 rows. Channels that do not fill vectors are taken as rows that do: of 6
// channels 8 pixels at a time, whose 48 sums become 6 at the end. A sum that is not finite says
// that some value is not (or that there are very large ones): then the other way, which is that of
// other CPUs, looks at all of it again: bounds and sums one after the other, while a chunk is in
// the first cache.
#include "npu/sim/ops/observe/observe_look.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "npu/sim/ops/observe/observe_block.h"
#include "npu/sim/simd/avx512.h"

#define ROWS    64
#define COLUMNS 8  // vectors whose sums stay in registers
#define FEW     64 // values that are looked at one by one where some lies in a tail

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

// ---- chunks: bounds and sums of `rows` rows of n lanes, or of a part of one channel ----

#ifdef KERNEL_AVX512
// Adds up what is finite, and turns into NaN else.
AVX512_INLINE void observe_add_lanes(double *sums, __m512 s, __m512 *check)
{
    *check = _mm512_fmadd_ps(s, _mm512_setzero_ps(), *check);
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(s));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(s, 1));
    _mm512_storeu_pd(sums, _mm512_add_pd(_mm512_loadu_pd(sums), low));
    _mm512_storeu_pd(sums + 8, _mm512_add_pd(_mm512_loadu_pd(sums + 8), high));
}

// A vector that is used several times is loaded once: compilers would load it for each use, and one
// load a cycle is all there is.
AVX512_INLINE __m512i observe_load(const float *v)
{
    __m512i x = _mm512_loadu_si512(v);
    __asm__("" : "+v"(x));
    return x;
}

// Bounds as integers, while they are found. Of floats as integers the largest signed one is the
// largest float, the largest unsigned one the least (observer_bounds_of()), and these take other
// units of the processor than sums do. A part without positive or without negative values has some
// number of the other sign in its place: no tail asks for it, and looking_ends() finds what the
// tensor's own end is.
struct observe_words {
    __m512i low, high;
};

AVX512_INLINE struct observe_words observe_words_begin(void)
{
    return (struct observe_words){_mm512_setzero_si512(), _mm512_set1_epi32(INT32_MIN)};
}

AVX512_INLINE void observe_words_end(struct observe_words w, struct observe_bounds *b)
{
    _mm512_storeu_ps(b->min, _mm512_min_ps(_mm512_loadu_ps(b->min), _mm512_castsi512_ps(w.low)));
    _mm512_storeu_ps(b->max, _mm512_max_ps(_mm512_loadu_ps(b->max), _mm512_castsi512_ps(w.high)));
}

// Columns of `k` vectors, k a constant, read row by row, so that memory is read in order where they
// are all columns. A row's least and largest value is found before the bounds so far, which so wait
// for each other once a row.
AVX512_INLINE void observe_columns(const float *v, uint64_t rows, uint32_t n, uint32_t k,
                                   double *sums, struct observe_bounds *b, __m512 *check)
{
    struct observe_words w = observe_words_begin();
    __m512 sum[COLUMNS];
    for (uint32_t i = 0; i < k; i++)
        sum[i] = _mm512_setzero_ps();
    for (const float *end = v + rows * n; v < end; v += n) {
        __m512i x = observe_load(v), least = x, most = x;
        sum[0] = _mm512_add_ps(sum[0], _mm512_castsi512_ps(x));
        for (uint32_t i = 1; i < k; i++) {
            x = observe_load(v + (size_t)i * AVX512_LANES);
            least = _mm512_max_epu32(least, x);
            most = _mm512_max_epi32(most, x);
            sum[i] = _mm512_add_ps(sum[i], _mm512_castsi512_ps(x));
        }
        w.low = _mm512_max_epu32(w.low, least);
        w.high = _mm512_max_epi32(w.high, most);
    }
    for (uint32_t i = 0; i < k; i++)
        observe_add_lanes(sums + (size_t)i * AVX512_LANES, sum[i], check);
    observe_words_end(w, b);
}

KERNEL_AVX512 static bool observe_rows_avx512(const float *v, uint64_t rows, uint32_t n,
                                              double *sums, struct observe_bounds *b)
{
    __m512 check = _mm512_setzero_ps();
    for (uint32_t c = 0, k; c < n; c += k * AVX512_LANES) {
        k = (n - c) / AVX512_LANES;
        k = k < COLUMNS ? k : COLUMNS;
        switch (k) {
#define COLUMNS_OF(k)                                                                              \
    case k:                                                                                        \
        observe_columns(v + c, rows, n, k, sums + c, b, &check);                                   \
        break
            COLUMNS_OF(1);
            COLUMNS_OF(2);
            COLUMNS_OF(3);
            COLUMNS_OF(4);
            COLUMNS_OF(5);
            COLUMNS_OF(6);
            COLUMNS_OF(7);
        default:
            observe_columns(v + c, rows, n, COLUMNS, sums + c, b, &check);
        }
    }
    return _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) == 0;
}

KERNEL_AVX512 static bool observe_plane_avx512(const float *v, uint64_t n, double *ret,
                                               struct observe_bounds *b)
{
    __m512 low = _mm512_loadu_ps(b->min), high = _mm512_loadu_ps(b->max);
    __m512 sum = _mm512_setzero_ps();
    for (uint64_t i = 0; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512 x = _mm512_maskz_loadu_ps(lanes, v + i);
        low = _mm512_mask_min_ps(low, lanes, low, x);
        high = _mm512_mask_max_ps(high, lanes, high, x);
        sum = _mm512_add_ps(sum, x);
    }
    float total = _mm512_reduce_add_ps(sum);
    _mm512_storeu_ps(b->min, low);
    _mm512_storeu_ps(b->max, high);
    *ret += (double)total;
    return fabsf(total) <= FLT_MAX;
}

// Of values whose channels do not matter, 64 at a time. NaN and infinite numbers are seen in the
// bounds, without a sum.
KERNEL_AVX512 static bool observe_flat_avx512(const float *v, uint64_t n, struct observe_bounds *b)
{
    const __m512i infinite = _mm512_set1_epi32(0x7f800000), sign = _mm512_set1_epi32(INT32_MIN);
    struct observe_words w = observe_words_begin(), w2 = w;
    uint64_t i = 0;
    for (; n - i >= FEW; i += FEW) {
        __m512i p = observe_load(v + i), q = observe_load(v + i + 16);
        __m512i r = observe_load(v + i + 32), s = observe_load(v + i + 48);
        w.low = _mm512_max_epu32(w.low, _mm512_max_epu32(p, q));
        w.high = _mm512_max_epi32(w.high, _mm512_max_epi32(p, q));
        w2.low = _mm512_max_epu32(w2.low, _mm512_max_epu32(r, s));
        w2.high = _mm512_max_epi32(w2.high, _mm512_max_epi32(r, s));
    }
    for (; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512i x = _mm512_maskz_loadu_epi32(lanes, v + i);
        w.low = _mm512_max_epu32(w.low, x);
        w.high = _mm512_mask_max_epi32(w.high, lanes, w.high, x);
    }
    w.low = _mm512_max_epu32(w.low, w2.low);
    w.high = _mm512_max_epi32(w.high, w2.high);
    if (_mm512_cmp_epi32_mask(w.high, infinite, _MM_CMPINT_NLT) |
        _mm512_cmp_epu32_mask(w.low, _mm512_or_si512(sign, infinite), _MM_CMPINT_NLT))
        return false;
    observe_words_end(w, b);
    return true;
}

// The values of a vector that lie in a tail. A tail that became shorter meanwhile is looked at by
// sampling_tails_put().
KERNEL_AVX512 static void observe_put_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    __mmask16 lanes = avx512_lanes(n);
    __m512 x = _mm512_maskz_loadu_ps(lanes, v);
    uint32_t beyond = _mm512_mask_cmp_ps_mask(lanes, x, _mm512_set1_ps(t->low), _CMP_LT_OQ) |
                      _mm512_mask_cmp_ps_mask(lanes, x, _mm512_set1_ps(t->high), _CMP_GT_OQ);
    for (; beyond; beyond &= beyond - 1)
        sampling_tails_put(t, v[__builtin_ctz(beyond)]);
}

// The least and the largest of four vectors say whether one of them has such a value.
KERNEL_AVX512 static void observe_tails_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    uint64_t at = 0;
    for (; n - at >= FEW; at += FEW) {
        __m512 a = _mm512_loadu_ps(v + at), b = _mm512_loadu_ps(v + at + 16);
        __m512 c = _mm512_loadu_ps(v + at + 32), d = _mm512_loadu_ps(v + at + 48);
        __m512 least = _mm512_min_ps(_mm512_min_ps(a, b), _mm512_min_ps(c, d));
        __m512 most = _mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d));
        if (_mm512_cmp_ps_mask(least, _mm512_set1_ps(t->low), _CMP_LT_OQ) |
            _mm512_cmp_ps_mask(most, _mm512_set1_ps(t->high), _CMP_GT_OQ))
            for (uint64_t i = 0; i < FEW; i += AVX512_LANES)
                observe_put_avx512(t, v + at + i, AVX512_LANES);
    }
    for (; at < n; at += AVX512_LANES)
        observe_put_avx512(t, v + at, n - at);
}
#else
static void observe_tails_avx512(struct sampling_tails *t, const float *v, uint64_t n)
{
    sampling_tails_add(t, v, n);
}

static bool observe_rows_avx512(const float *v, uint64_t rows, uint32_t n, double *sums,
                                struct observe_bounds *b)
{
    (void)v, (void)rows, (void)n, (void)sums, (void)b;
    return false;
}

static bool observe_plane_avx512(const float *v, uint64_t n, double *ret, struct observe_bounds *b)
{
    (void)v, (void)n, (void)ret, (void)b;
    return false;
}

static bool observe_flat_avx512(const float *v, uint64_t n, struct observe_bounds *b)
{
    (void)v, (void)n, (void)b;
    return false;
}
#endif

// ---- whole tensors ----

struct looking {
    const struct observe_shape *s;
    const float *x;
    struct observed o;
    uint64_t at; // values before it were looked at
    bool failed; // by vectors: they are looked at in the other way, at the end
    double *lanes;
    struct observe_block *blocks;
    uint64_t n_blocks;
    uint64_t each;               // values of a block, at least
    uint64_t pick, n_picked;     // the next place, and how many there were
    struct observe_block *block; // the last one, which is not whole yet
};

#define ROOM_OF_LOOKING ((sizeof(struct looking) + 63) / 64 * 64)

uint64_t observe_room(uint64_t n)
{
    return ROOM_OF_LOOKING + OBSERVE_LANES * sizeof(double) +
           (n / OBSERVE_BLOCK + 2) * sizeof(struct observe_block);
}

// Blocks are filled by whole calls of a kernel, so they end where a row, a plane or a chunk does.
static void looking_open_block(struct looking *k)
{
    k->block = &k->blocks[k->n_blocks];
    observe_bounds_begin(&k->block->bounds);
}

// The values before `to` are in the block's bounds, which then has BLOCK of them or more, or is the
// last one.
static void looking_next(struct looking *k, uint64_t to)
{
    const struct sampling_layout *l = &k->s->layout;
    uint64_t from = k->n_blocks ? k->blocks[k->n_blocks - 1].end : 0;
    k->at = to;
    for (; k->pick < to; k->pick += l->stride)
        k->o.values[k->n_picked++] = k->x[k->pick];
    if (to - from < k->each && to < l->n)
        return;
    k->block->end = to;
    k->n_blocks++;
    looking_open_block(k);
}

// Values whose bounds are found without their parts.
static void looking_next_plain(struct looking *k, uint64_t from, uint64_t to)
{
    struct observer_bounds seen = observe_bounds(k->x + from, to - from);
    struct observe_bounds *b = &k->block->bounds;
    k->o.bounds.n_bad += seen.n_bad;
    b->min[0] = seen.min < b->min[0] ? seen.min : b->min[0];
    b->max[0] = seen.max > b->max[0] ? seen.max : b->max[0];
    looking_next(k, to);
}

// So many lanes, that they are whole vectors and whole rounds of channels. 0: there are too many.
// Of large tensors a few vectors, so that a chunk is as long as it may be.
static uint32_t looking_lanes(uint32_t n_channels, uint64_t n)
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
    uint32_t channels = k->s->n_channels, lanes = looking_lanes(channels, k->s->layout.n);
    if (!lanes)
        return false;
    uint64_t each = OBSERVE_CHUNK / lanes, whole = k->s->layout.n / lanes * lanes;
    double *sums = lanes == channels ? k->o.sums : k->lanes;
    if (!k->at)
        memset(sums, 0, lanes * sizeof *sums);
    uint64_t least = k->s->tails ? 1 : ROWS; // without blocks a part may be as long as it likes
    each = each < least ? least : each > ROWS ? ROWS : each;
    while (k->at < whole) {
        uint64_t rows = (whole - k->at) / lanes < each ? (whole - k->at) / lanes : each;
        if (k->at + rows * lanes > end)
            break;
        if (!observe_rows_avx512(k->x + k->at, rows, lanes, sums, &k->block->bounds))
            return false;
        looking_next(k, k->at + rows * lanes);
    }
    return true;
}

// What is left of less than a row of lanes. Where rows are longer than the channels, the sums of
// the lanes that belong to one channel are added up.
static bool looking_end_rows(struct looking *k)
{
    uint32_t channels = k->s->n_channels, lanes = looking_lanes(channels, k->s->layout.n);
    for (uint32_t i = 0; i < lanes && lanes != channels; i++)
        k->o.sums[i % channels] += k->lanes[i];
    looking_rest(k, k->at);
    return !k->o.bounds.n_bad;
}

static bool looking_flat(struct looking *k, uint64_t end)
{
    uint64_t n = k->s->layout.n;
    uint64_t each = k->each < OBSERVE_CHUNK ? k->each : OBSERVE_CHUNK;
    while (k->at < n) {
        uint64_t part = n - k->at < each ? n - k->at : each;
        if (k->at + part > end)
            break;
        if (!observe_flat_avx512(k->x + k->at, part, &k->block->bounds))
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
            if (!observe_plane_avx512(k->x + from + at, part, &k->o.sums[channel],
                                      &k->block->bounds))
                return false;
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
        if (observe_blocks_beyond(k->blocks, k->n_blocks, low, high, t->most) <= t->most)
            return;
    }
}

// The values of a block that lie in a tail, as it is by then.
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

// Far most tensors have their tails in few blocks, and of the others the levels that are left are
// short: so of the values few are looked at again, 64 at a time first.
static void looking_tails(struct looking *k)
{
    struct sampling_tails *t = &k->o.tails;
    uint64_t i = 0;
    sampling_tails_begin(t, k->s->layout.n, k->o.bounds.min, k->o.bounds.max, t->values);
    looking_choose_level(k, false);
    looking_choose_level(k, true);
    while ((i = observe_blocks_next(k->blocks, i, k->n_blocks, t->low, t->high)) < k->n_blocks) {
        looking_tails_in(k, i ? k->blocks[i - 1].end : 0, k->blocks[i].end);
        i++;
    }
}

// Of numbers of one sign the least unsigned one is the nearest to 0.
KERNEL(float, observe_nearest, (const float *v, uint64_t n), (v, n))
{
    uint32_t first = UINT32_MAX, bits;
    float nearest;
    for (uint64_t at = 0; at < n && first; at += OBSERVE_BLOCK) {
        uint64_t some = n - at < OBSERVE_BLOCK ? n - at : OBSERVE_BLOCK;
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
    k->at = k->n_picked = k->n_blocks = 0;
    k->pick = k->s->layout.stride && !k->s->layout.rows ? 0 : UINT64_MAX; // planes are turned later
    looking_open_block(k);
    memset(k->o.sums, 0, k->s->n_channels * sizeof *k->o.sums);
}

void observe_begin(const struct observe_shape *s, const float *x, void *room,
                   const struct observed *o)
{
    struct looking *k = room;
    *k = (struct looking){.s = s, .x = x, .o = *o, .failed = !kernel_has_avx512()};
    k->each = s->tails ? OBSERVE_BLOCK : UINT64_MAX; // blocks are for tails
    k->lanes = (double *)((char *)room + ROOM_OF_LOOKING);
    k->blocks = (struct observe_block *)(k->lanes + OBSERVE_LANES);
    looking_begin(k);
}

uint64_t observe_go_on(void *room, uint64_t n)
{
    struct looking *k = room;
    if (k->failed || (k->s->n_channels && k->s->inner > 1))
        return UINT64_MAX;
    k->failed = !(k->s->n_channels ? looking_rows : looking_flat)(k, n);
    return k->at + OBSERVE_BLOCK;
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
    observe_blocks_join(k->blocks, k->n_blocks, &k->o.bounds);
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
