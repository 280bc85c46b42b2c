// From sums of integer convolutions in memory to int8, with AVX2: conv_requantize.c has formula and
// rounding.
//
//   32 sums -> 4 vectors of floats -> 4 of rounded integers -> 32 bytes, clamped
//
// Why it is fast: jobs whose outputs are `narrow` need no bounds before they are packed, which
// saturates; they are clamped as bytes, 32 at a time. Nothing but sums is read from beyond the L1
// cache, and outputs are stored once.
//
// A LeakyRelu's bounds are compared as bytes, too, and what differs is computed in doubles there
// and then. They are rounded by their conversion to integers, so that zp is part of what is added:
// less than requant_error() allows for, since |zp| + 128 is no more than what that takes for a sum.
//
// Compiled without contracted products. Tests: test_sim_conv_AVX2.
#include "npu/sim/conv/conv_requantize.h"

#include <stdlib.h>

#include "npu/sim/simd/avx2.h"

#ifdef KERNEL_AVX2
#define VECTORS 4 // at a time, or half of them
#define LEAST   (VECTORS * AVX2_LANES)

struct avx2_form {
    bool nz, complete, merged; // complete: biases are 0
    enum requant_kind kind;
};

// Channels from `channel` on, counted through all groups, of group g; `at`: of sums and outputs.
struct avx2_place {
    size_t g, channel, at;
};

AVX2_INLINE __m256 avx2_stage(__m256 v, __m256 factor)
{
    const __m256 integer = _mm256_set1_ps(REQUANT_INTEGER_FLOAT);
    return _mm256_sub_ps(_mm256_fmadd_ps(v, factor, integer), integer);
}

AVX2_INLINE __m256i avx2_load_integers(const int32_t *x)
{
    return _mm256_loadu_si256((const void *)x);
}

AVX2_INLINE __m256i avx2_complete_sums(const struct requant_job *t, struct avx2_place p,
                                       const struct avx2_form form)
{
    __m256i sums = avx2_load_integers(t->sums + p.at);
    if (!form.complete)
        sums = _mm256_add_epi32(sums, avx2_load_integers(t->bias + p.channel));
    if (form.nz)
        sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(_mm256_set1_epi32(t->window_sums[p.g]),
                                                         avx2_load_integers(t->nz + p.channel)));
    return sums;
}

AVX2_INLINE __m256 avx2_addends(const struct requant_job *t, size_t at)
{
    __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(t->addend + at)));
    v = _mm256_add_epi32(v, _mm256_set1_epi32(t->addend_offset));
    return avx2_stage(_mm256_cvtepi32_ps(v), _mm256_set1_ps(t->addend_factor));
}

// What 8 sums become before they are clamped.
AVX2_INLINE __m256i avx2_outputs(const struct requant_job *t, struct avx2_place p,
                                 const struct avx2_form form)
{
    const __m256 to = _mm256_set1_ps(t->to_stored), out = _mm256_set1_ps(t->out);
    const int32_t zero = (int32_t)float_bits(REQUANT_INTEGER_FLOAT) - t->zp_after;
    __m256 v = _mm256_cvtepi32_ps(avx2_complete_sums(t, p, form));
    if (form.kind == REQUANT_FLOAT32) {
        v = _mm256_mul_ps(v, _mm256_loadu_ps(t->factors.positive + p.channel));
        v = _mm256_add_ps(v, to);
    } else if (form.merged) {
        v = _mm256_fmadd_ps(v, _mm256_loadu_ps(t->factors.stage + p.channel),
                            _mm256_set1_ps(REQUANT_INTEGER_FLOAT));
        v = _mm256_fmadd_ps(v, out, _mm256_set1_ps(t->to_merged));
    } else {
        v = avx2_stage(v, _mm256_loadu_ps(t->factors.stage + p.channel));
        if (form.kind == REQUANT_ADD)
            v = _mm256_add_ps(v, avx2_addends(t, p.at));
        v = _mm256_fmadd_ps(v, out, to);
    }
    return _mm256_sub_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(zero));
}

// Both bounds of what a LeakyRelu makes of 8 sums.
AVX2_INLINE __m256i avx2_leaky_outputs(const struct requant_job *t, struct avx2_place p,
                                       const struct avx2_form form, __m256i *ret_high)
{
    const float zp = t->to_stored - REQUANT_INTEGER_FLOAT;
    __m256 low = _mm256_set1_ps(zp - t->error), high = _mm256_set1_ps(zp + t->error);
    __m256 v = _mm256_cvtepi32_ps(avx2_complete_sums(t, p, form));
    __m256 stage = avx2_stage(v, _mm256_loadu_ps(t->factors.stage + p.channel));
    __m256 factor = _mm256_blendv_ps(_mm256_loadu_ps(t->factors.positive + p.channel),
                                     _mm256_loadu_ps(t->factors.negative + p.channel), v);
    v = _mm256_blendv_ps(v, stage, v);
    if (form.kind == REQUANT_LEAKY_ADD) {
        __m256 more = avx2_addends(t, p.at), out = _mm256_set1_ps(t->out);
        low = _mm256_fmadd_ps(more, out, low);
        high = _mm256_fmadd_ps(more, out, high);
    }
    *ret_high = _mm256_cvtps_epi32(_mm256_fmadd_ps(v, factor, high));
    return _mm256_cvtps_epi32(_mm256_fmadd_ps(v, factor, low));
}

// As bytes; of half as many vectors the lower half.
AVX2_INLINE __m256i avx2_pack(const __m256i v[VECTORS], const int n)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i first = _mm256_packs_epi32(v[0], v[1]);
    __m256i packed =
        _mm256_packs_epi16(first, n == VECTORS ? _mm256_packs_epi32(v[2], v[3]) : first);
    return _mm256_permutevar8x32_epi32(
        packed, n == VECTORS ? in_order : _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
}

// The outputs whose bits are set, from `at` on.
static void avx2_close(const struct requant_job *t, size_t at, uint32_t open)
{
    for (; open; open &= open - 1) {
        size_t place = at + (size_t)__builtin_ctz(open);
        struct requant_part one = {.sums = t->sums + place,
                                   .first = place / t->channels,
                                   .n = 1,
                                   .from = place % t->channels,
                                   .count = 1};
        conv_requantize_exact(t, &one);
    }
}

// n vectors.
AVX2_INLINE void avx2_requantize(const struct requant_job *t, struct avx2_place p, const int n,
                                 const struct avx2_form form)
{
    __m256i low[VECTORS], high[VECTORS];
    const bool leaky = requant_is_leaky(form.kind);
    struct avx2_place at = p;
#pragma GCC unroll 4
    for (int i = 0; i < n; i++, at.channel += AVX2_LANES, at.at += AVX2_LANES)
        low[i] = leaky ? avx2_leaky_outputs(t, at, form, &high[i]) : avx2_outputs(t, at, form);
    __m256i packed = avx2_pack(low, n);
    __m256i stored = _mm256_max_epi8(packed, _mm256_set1_epi8(t->bounds[0]));
    stored = _mm256_min_epi8(stored, _mm256_set1_epi8(t->bounds[1]));
    if (n == VECTORS)
        _mm256_storeu_si256((void *)(t->dst + p.at), stored);
    else
        _mm_storeu_si128((void *)(t->dst + p.at), _mm256_castsi256_si128(stored));
    if (!leaky)
        return;
    __m256i same = _mm256_cmpeq_epi8(packed, avx2_pack(high, n));
    uint32_t open = ~(uint32_t)_mm256_movemask_epi8(same);
    if (open)
        avx2_close(t, p.at, n == VECTORS ? open : open & UINT16_MAX);
}

// Without zero points of weights all outputs are one line, in which channels come again and again.
// Its last vectors are moved back so that they end where it ends.
AVX2_INLINE void avx2_requantize_line(const struct requant_job *call, const struct avx2_form form)
{
    const struct requant_job t = *call;
    const size_t all = (size_t)VECTORS * AVX2_LANES, n = t.n * t.channels;
    const size_t advance = all % t.channels;
    struct avx2_place p = {0};
    for (; p.at + all <= n; p.at += all) {
        avx2_requantize(&t, p, VECTORS, form);
        p.channel += advance;
        p.channel -= p.channel >= t.channels ? t.channels : 0;
    }
    if (p.at == n)
        return;
    p.at = n - all;
    p.channel = p.at % t.channels;
    avx2_requantize(&t, p, VECTORS, form);
}

// With them, the last channels of a group are moved back so that they end where it ends.
AVX2_INLINE void avx2_requantize_each(const struct requant_job *call, const struct avx2_form form)
{
    const struct requant_job t = *call;
    const size_t all = (size_t)VECTORS * AVX2_LANES, half = all / 2;
    for (size_t g = 0; g < t.n; g++) {
        const struct avx2_place p = {g, g % t.groups * t.channels, g * t.channels};
        size_t from = 0, last = t.channels - half;
        for (; from + all <= t.channels; from += all)
            avx2_requantize(&t, (struct avx2_place){g, p.channel + from, p.at + from}, VECTORS,
                            form);
        for (; from < t.channels; from += half) {
            size_t o = from < last ? from : last;
            avx2_requantize(&t, (struct avx2_place){g, p.channel + o, p.at + o}, VECTORS / 2, form);
        }
    }
}

AVX2_INLINE void avx2_requantize_all(const struct requant_job *t, bool nz,
                                     const enum requant_kind kind)
{
    if (nz)
        avx2_requantize_each(t, (struct avx2_form){true, false, false, kind});
    else if (kind == REQUANT_PLAIN && t->merged && t->complete)
        avx2_requantize_line(t, (struct avx2_form){false, true, true, kind});
    else if (kind == REQUANT_PLAIN && t->merged)
        avx2_requantize_line(t, (struct avx2_form){false, false, true, kind});
    else if (t->complete)
        avx2_requantize_line(t, (struct avx2_form){false, true, false, kind});
    else
        avx2_requantize_line(t, (struct avx2_form){false, false, false, kind});
}

#define REQUANT_AVX2(name) KERNEL_AVX2 static void name(const struct requant_job *t)

CONV_REQUANTIZE(conv_requantize_avx2, REQUANT_AVX2, avx2_requantize_all)

bool conv_requantize_has_avx2(const struct requant_job *t)
{
    return kernel_has_avx2() && !kernel_has_avx512() && t->narrow && !t->in_doubles &&
           (t->nz ? t->channels >= CONV_LANES : t->n * t->channels >= LEAST);
}
#else
bool conv_requantize_has_avx2(const struct requant_job *t)
{
    (void)t;
    return false;
}

void conv_requantize_avx2(const struct requant_job *t)
{
    (void)t;
    abort(); // conv_requantize_has_avx2() is never true
}
#endif
