// Sixteen parts at a time.
#include "npu/sim/ops/observe/observe_marks.h"

#include "npu/sim/simd/avx512.h"

#define SOME 16 // parts

static float marks_less(float a, float b)
{
    return a < b ? a : b;
}

static float marks_more(float a, float b)
{
    return a > b ? a : b;
}

void observe_bounds_begin(struct observe_bounds *b)
{
    for (uint32_t i = 0; i < OBSERVE_LANE; i++) {
        b->min[i] = __builtin_inff();
        b->max[i] = -__builtin_inff();
    }
}

void observe_bounds_join(struct observe_bounds *b, const struct observe_bounds *more)
{
    for (uint32_t i = 0; i < OBSERVE_LANE; i++) {
        b->min[i] = marks_less(b->min[i], more->min[i]);
        b->max[i] = marks_more(b->max[i], more->max[i]);
    }
}

#ifdef KERNEL_AVX512
KERNEL_AVX512 static void bounds_take_avx512(const struct observe_bounds *b,
                                             struct observer_bounds *all)
{
    all->min = marks_less(_mm512_reduce_min_ps(_mm512_loadu_ps(b->min)), all->min);
    all->max = marks_more(_mm512_reduce_max_ps(_mm512_loadu_ps(b->max)), all->max);
}
#endif

void observe_bounds_take(const struct observe_bounds *b, struct observer_bounds *all)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512()) {
        bounds_take_avx512(b, all);
        return;
    }
#endif
    for (uint32_t i = 0; i < OBSERVE_LANE; i++) {
        all->min = marks_less(b->min[i], all->min);
        all->max = marks_more(b->max[i], all->max);
    }
}

// Parts are 128 values long at least, but for the last ones; four of them are written at once.
static uint64_t marks_most(uint64_t n)
{
    return n / (OBSERVE_MARK / 2) + 4 * SOME;
}

uint64_t observe_marks_room(uint64_t n)
{
    return marks_most(n) * (sizeof(uint32_t) + 2 * sizeof(float));
}

struct observe_marks observe_marks_in(void *room, uint64_t n)
{
    uint64_t most = marks_most(n);
    float *floats = (float *)room;
    return (struct observe_marks){
        .least = floats, .most = floats + most, .end = (uint32_t *)(floats + 2 * most)};
}

void observe_marks_add_bounds(struct observe_marks *m, uint64_t from, uint64_t end,
                              const struct observe_bounds *b)
{
    struct observer_bounds all = {__builtin_inff(), -__builtin_inff(), 0};
    observe_bounds_take(b, &all);
    uint64_t begin = m->n > 1 ? m->end[m->n - 2] : 0;
    if (!m->n || from - begin >= OBSERVE_MARK) {
        m->least[m->n] = __builtin_inff();
        m->most[m->n++] = -__builtin_inff();
    }
    uint64_t last = m->n - 1;
    m->end[last] = (uint32_t)end;
    m->least[last] = marks_less(m->least[last], all.min);
    m->most[last] = marks_more(m->most[last], all.max);
}

// ---- by vectors: all that a look asks of a tensor's marks is one call ----

#ifdef KERNEL_AVX512
// Of 16 parts from `at` on, as far as there are so many, a bit for each that reaches so far.
AVX512_INLINE uint32_t marks_bits_avx512(const struct observe_marks *m, uint64_t at, __m512 low,
                                         __m512 high)
{
    __mmask16 lanes = avx512_lanes(m->n - at);
    __m512 least = _mm512_maskz_loadu_ps(lanes, m->least + at);
    __m512 most = _mm512_maskz_loadu_ps(lanes, m->most + at);
    return _mm512_mask_cmp_ps_mask(lanes, least, low, _CMP_LT_OQ) |
           _mm512_mask_cmp_ps_mask(lanes, most, high, _CMP_GT_OQ);
}

KERNEL_AVX512 static uint32_t marks_beyond_avx512(const struct observe_marks *m, float low,
                                                  float high, uint32_t most)
{
    uint32_t parts = 0;
    for (uint64_t at = 0; at < m->n && parts <= most; at += SOME)
        parts += (uint32_t)__builtin_popcount(
            marks_bits_avx512(m, at, _mm512_set1_ps(low), _mm512_set1_ps(high)));
    return parts;
}

KERNEL_AVX512 static uint64_t marks_next_avx512(const struct observe_marks *m, uint64_t at,
                                                float low, float high)
{
    for (; at < m->n; at += SOME) {
        uint32_t bits = marks_bits_avx512(m, at, _mm512_set1_ps(low), _mm512_set1_ps(high));
        if (bits)
            return at + (uint32_t)__builtin_ctz(bits);
    }
    return m->n;
}

KERNEL_AVX512 static void marks_join_avx512(const struct observe_marks *m,
                                            struct observer_bounds *all)
{
    __m512 low = _mm512_set1_ps(all->min), high = _mm512_set1_ps(all->max);
    for (uint64_t at = 0; at < m->n; at += SOME) {
        __mmask16 lanes = avx512_lanes(m->n - at);
        low = _mm512_mask_min_ps(low, lanes, low, _mm512_maskz_loadu_ps(lanes, m->least + at));
        high = _mm512_mask_max_ps(high, lanes, high, _mm512_maskz_loadu_ps(lanes, m->most + at));
    }
    all->min = _mm512_reduce_min_ps(low);
    all->max = _mm512_reduce_max_ps(high);
}
#endif

static bool marks_reach(const struct observe_marks *m, uint64_t i, float low, float high)
{
    return (m->least[i] < low) | (m->most[i] > high);
}

uint32_t observe_marks_beyond(const struct observe_marks *m, float low, float high, uint32_t most)
{
    uint32_t parts = 0;
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        return marks_beyond_avx512(m, low, high, most);
#endif
    for (uint64_t at = 0; at < m->n && parts <= most; at++)
        parts += marks_reach(m, at, low, high);
    return parts;
}

uint64_t observe_marks_next(const struct observe_marks *m, uint64_t at, float low, float high)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        return marks_next_avx512(m, at, low, high);
#endif
    while (at < m->n && !marks_reach(m, at, low, high))
        at++;
    return at;
}

void observe_marks_join(const struct observe_marks *m, struct observer_bounds *all)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512()) {
        marks_join_avx512(m, all);
        return;
    }
#endif
    for (uint64_t i = 0; i < m->n; i++) {
        all->min = marks_less(m->least[i], all->min);
        all->max = marks_more(m->most[i], all->max);
    }
}
