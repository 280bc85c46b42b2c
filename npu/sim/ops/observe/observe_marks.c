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

void observe_bounds_take(const struct observe_bounds *b, struct observer_bounds *all)
{
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

// Of 16 parts from `at` on, as far as there are so many, a bit for each that reaches so far.
#ifdef KERNEL_AVX512
KERNEL_AVX512 static uint32_t marks_beyond_avx512(const struct observe_marks *m, uint64_t at,
                                                  float low, float high)
{
    __mmask16 lanes = avx512_lanes(m->n - at);
    __m512 least = _mm512_maskz_loadu_ps(lanes, m->least + at);
    __m512 most = _mm512_maskz_loadu_ps(lanes, m->most + at);
    return _mm512_mask_cmp_ps_mask(lanes, least, _mm512_set1_ps(low), _CMP_LT_OQ) |
           _mm512_mask_cmp_ps_mask(lanes, most, _mm512_set1_ps(high), _CMP_GT_OQ);
}
#endif

static uint32_t marks_beyond(const struct observe_marks *m, uint64_t at, float low, float high)
{
    uint32_t bits = 0;
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        return marks_beyond_avx512(m, at, low, high);
#endif
    for (uint32_t i = 0; i < SOME && at + i < m->n; i++)
        bits |= (uint32_t)((m->least[at + i] < low) | (m->most[at + i] > high)) << i;
    return bits;
}

uint32_t observe_marks_beyond(const struct observe_marks *m, float low, float high, uint32_t most)
{
    uint32_t parts = 0;
    for (uint64_t at = 0; at < m->n && parts <= most; at += SOME)
        parts += (uint32_t)__builtin_popcount(marks_beyond(m, at, low, high));
    return parts;
}

uint64_t observe_marks_next(const struct observe_marks *m, uint64_t at, float low, float high)
{
    for (; at < m->n; at += SOME) {
        uint32_t bits = marks_beyond(m, at, low, high);
        if (bits)
            return at + (uint32_t)__builtin_ctz(bits);
    }
    return m->n;
}

KERNEL(struct observer_bounds, marks_bounds, (const float *least, const float *most, uint64_t n),
       (least, most, n))
{
    struct observe_bounds b;
    struct observer_bounds all = {__builtin_inff(), -__builtin_inff(), 0};
    for (uint32_t i = 0; i < OBSERVE_LANE; i++) {
        b.min[i] = all.min;
        b.max[i] = all.max;
    }
    for (uint64_t at = 0; at + OBSERVE_LANE <= n; at += OBSERVE_LANE)
        for (uint32_t i = 0; i < OBSERVE_LANE; i++) {
            b.min[i] = least[at + i] < b.min[i] ? least[at + i] : b.min[i];
            b.max[i] = most[at + i] > b.max[i] ? most[at + i] : b.max[i];
        }
    for (uint64_t at = n / OBSERVE_LANE * OBSERVE_LANE; at < n; at++) {
        all.min = least[at] < all.min ? least[at] : all.min;
        all.max = most[at] > all.max ? most[at] : all.max;
    }
    for (uint32_t i = 0; n >= OBSERVE_LANE && i < OBSERVE_LANE; i++) {
        all.min = b.min[i] < all.min ? b.min[i] : all.min;
        all.max = b.max[i] > all.max ? b.max[i] : all.max;
    }
    return all;
}

void observe_marks_join(const struct observe_marks *m, struct observer_bounds *all)
{
    struct observer_bounds own = marks_bounds(m->least, m->most, m->n);
    all->min = marks_less(own.min, all->min);
    all->max = marks_more(own.max, all->max);
}
