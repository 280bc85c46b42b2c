// Lines from int8 to int8 with AVX2. A byte in the upper half of 16 bits is x * 256, so the upper
// half of its product with the factor is x * factor >> 8; what is packed afterwards lies in order,
// since it was unpacked in the same halves:
//
//   | x0 x1 … |  -->  | 0 x0 | 0 x1 | …  -->  products, sums  -->  vpacksswb
//
// The factor is only of what is left of the slope without its nearest half, since the 256 values
// lie as near to the next step as a 500th of one, and 16 bits must hold that, too. Whether it
// serves is a question of its term alone: each of the values allows a range of terms, and they must
// have one in common.
//
// Tests: test_sim_map.
#include "npu/sim/simd/int8_line/int8_line.h"

#include <math.h>
#include <stdlib.h>

#include "npu/sim/simd/kernel.h"

#define BITS  9                // of one of the table's steps
#define ONE   (1 << 8 << BITS) // the factor of a line that rises by 1
#define MOST  2                // whole steps
#define LEAST 8                // values of which a slope is known

#ifdef KERNEL_AVX2
#include <immintrin.h>

// The terms, with the offset in front of them, with which `factor` gives what the table has at v.
static void int8_line_narrow(const int8_t *table, int whole, int32_t factor, int v,
                             int32_t terms[2])
{
    int32_t y = table[(uint8_t)(int8_t)v], product = v * factor >> 8;
    int32_t low = (y - whole * v) * (1 << BITS) - product, high = low + (1 << BITS) - 1;
    if (y > INT8_MIN && low > terms[0])
        terms[0] = low;
    if (y < INT8_MAX && high < terms[1])
        terms[1] = high;
}

// From both ends inwards, where a factor that is wrong is so first.
static bool int8_line_fits(const int8_t *table, int whole, int32_t factor, struct int8_line *ret)
{
    int32_t terms[2] = {-(1 << 20), 1 << 20};
    for (int i = 0; i < 128 && terms[0] <= terms[1]; i++) {
        int8_line_narrow(table, whole, factor, i - 128, terms);
        int8_line_narrow(table, whole, factor, 127 - i, terms);
    }
    int32_t last = (factor > 0 ? 127 : -128) * factor >> 8; // the largest product
    if (terms[0] > terms[1] || last > INT16_MAX - (1 << BITS))
        return false;
    int half = factor > INT16_MAX ? 1 : factor < INT16_MIN ? -1 : 0;
    *ret = (struct int8_line){
        .factor = (int16_t)(factor - half * ONE / 2),
        .half = (int16_t)half,
        .term = (int16_t)(terms[0] & ((1 << BITS) - 1)),
        .whole = (int16_t)whole,
        .offset = (int16_t)(terms[0] >> BITS),
    };
    return true;
}

bool int8_line_find(const int8_t table[256], struct int8_line *ret)
{
    int first = 127, last = -128; // what is not saturated
    if (!kernel_has_avx2())
        return false;
    for (int v = -128; v < 128; v++)
        if (table[(uint8_t)(int8_t)v] > INT8_MIN && table[(uint8_t)(int8_t)v] < INT8_MAX) {
            first = v < first ? v : first;
            last = v;
        }
    if (last - first < LEAST)
        return false;
    double slope = table[(uint8_t)(int8_t)last] - table[(uint8_t)(int8_t)first];
    slope /= last - first;
    int whole = (int)lrint(slope);
    int32_t middle = (int32_t)lrint((slope - whole) * ONE);
    int32_t reach = ONE / (last - first) + 1; // each end is up to half a step off
    if (slope < 0 || whole > MOST)
        return false;
    for (int32_t off = 0; off <= reach; off++)
        for (int sign = -1; sign <= 1; sign += 2) {
            int32_t factor = middle + sign * off;
            if (abs(factor) < ONE / 2 && int8_line_fits(table, whole, factor, ret))
                return true;
        }
    return false;
}

// 16 bits whose upper halves are bytes, to results.
KERNEL_AVX2 static inline __attribute__((always_inline)) __m256i
int8_line_halves(const struct int8_line *l, __m256i x, const bool half)
{
    __m256i v = _mm256_mulhi_epi16(x, _mm256_set1_epi16(l->factor));
    if (half)
        v = _mm256_add_epi16(v, _mm256_sign_epi16(x, _mm256_set1_epi16(l->half)));
    v = _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(l->term)), BITS);
    __m256i whole = _mm256_mulhi_epi16(x, _mm256_set1_epi16((int16_t)(l->whole * 256)));
    return _mm256_add_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(l->offset)), whole);
}

KERNEL_AVX2 static inline __attribute__((always_inline)) void
int8_line_32(const struct int8_line *l, const int8_t *x, int8_t *y, const bool half)
{
    __m256i v = _mm256_loadu_si256((const void *)x), zero = _mm256_setzero_si256();
    __m256i low = int8_line_halves(l, _mm256_unpacklo_epi8(zero, v), half);
    __m256i high = int8_line_halves(l, _mm256_unpackhi_epi8(zero, v), half);
    _mm256_storeu_si256((void *)y, _mm256_packs_epi16(low, high));
}

KERNEL_AVX2 static inline __attribute__((always_inline)) void
int8_line_16(const struct int8_line *l, const int8_t *x, int8_t *y, const bool half)
{
    __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x));
    v = int8_line_halves(l, _mm256_slli_epi16(v, 8), half);
    v = _mm256_permute4x64_epi64(_mm256_packs_epi16(v, v), 0xd8);
    _mm_storeu_si128((void *)y, _mm256_castsi256_si128(v));
}

// A row's last vector is moved back to end with it.
KERNEL_AVX2 static inline __attribute__((always_inline)) void
int8_line_row(const struct int8_line *l, const int8_t *x, size_t n, int8_t *y, const bool half)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        int8_line_32(l, x + i, y + i, half);
    if (n - i > 16 && n >= 32) {
        int8_line_32(l, x + n - 32, y + n - 32, half);
    } else if (i < n) {
        int8_line_16(l, x + n - 16, y + n - 16, half);
        if (n - i > 16)
            int8_line_16(l, x + i, y + i, half);
    }
}

KERNEL_AVX2 void int8_line_rows(const struct int8_line *l, const int8_t *x, ptrdiff_t x_step,
                                size_t n, size_t rows, int8_t *y, ptrdiff_t y_step)
{
    const struct int8_line line = *l; // which stores to y do not change
    for (; rows; rows--, x += x_step, y += y_step)
        if (line.half)
            int8_line_row(&line, x, n, y, true);
        else
            int8_line_row(&line, x, n, y, false);
}
#else
bool int8_line_find(const int8_t table[256], struct int8_line *ret)
{
    (void)table, (void)ret;
    return false;
}

void int8_line_rows(const struct int8_line *l, const int8_t *x, ptrdiff_t x_step, size_t n,
                    size_t rows, int8_t *y, ptrdiff_t y_step)
{
    (void)l, (void)x, (void)x_step, (void)n, (void)rows, (void)y, (void)y_step;
    abort(); // int8_line_find() is never true
}
#endif
