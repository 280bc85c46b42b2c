// Sums, table look-ups and strided copies of int8, where compilers find no good instructions.
//
// int8_sum_eights   8 channels to one sum: vpsadbw adds 8 bytes without sign in one instruction, so
//                   bytes are raised by 128 (xor 0x80) and 8 * 128 is subtracted. 64 bytes at a
//                   time:
//                     | x0 … x7 | x8 … x15 | …   -->   | sum | sum | …  int32
//                   Without AVX2 the same in a 64-bit integer: even and odd bytes are added as
//                   16-bit numbers, and a multiplication adds the four of these into the highest.
// int8_map          a table of 256 bytes in four registers: vpermi2b looks up 7 bits in two of
//                   them, the sign bit chooses between the halves. 64 elements by two look-ups and
//                   a blend; short rows without a way through memory (int8_map_rows). With AVX2 by
//                   pieces of 16 bytes: vpshufb takes an index's low 4 bits, and gives 0 for
//                   negative ones. A piece is kept as what differs from the one before. From an
//                   index that is 16 less for each piece, and stays negative once it is, all pieces
//                   up to the right one are looked up; xor leaves that one:
//                     index 37:  T0[5] ^ (T0 ^ T1)[5] ^ (T1 ^ T2)[5] ^ 0 …  =  T2[5]
//                   NEON looks up in 64 bytes at a time, and leaves what lies outside as it is.
//                   But for AVX512-VBMI, bounds alone are minima and maxima.
// int8_take         every 2nd or 4th byte: shuffles of two vectors that keep the even bytes.
//
// All are exact. Tests: test_sim_conv_AVX2_VNNI (sums), test_sim_map, test_sim_cases.
#include "npu/sim/simd/int8.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/kernel.h"

#define PIECES_MIN 128 // elements, for which it is worth to prepare pieces
#define CLAMP_MIN  512 // … to look whether a table only bounds

// The sum of 8 bytes.
static inline int32_t int8_sum_eight(const int8_t *x)
{
    const uint64_t every_other = 0x00ff00ff00ff00ff;
    uint64_t v;
    memcpy(&v, x, sizeof v);
    v ^= 0x8080808080808080; // from -128..127 to 0..255
    v = (v & every_other) + (v >> 8 & every_other);
    return (int32_t)(v * 0x0001000100010001 >> 48) - 8 * 128;
}

// Those with the CPU's instructions return how many of n they have done.
#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx2"))) static size_t int8_sum_many(const int8_t *x, size_t n,
                                                            int32_t *sums)
{
    const __m256i flip = _mm256_set1_epi8(-128), too_much = _mm256_set1_epi32(8 * 128);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i a = _mm256_loadu_si256((const void *)(x + 8 * i));
        __m256i b = _mm256_loadu_si256((const void *)(x + 8 * i + 32));
        a = _mm256_sad_epu8(_mm256_xor_si256(a, flip), _mm256_setzero_si256());
        b = _mm256_sad_epu8(_mm256_xor_si256(b, flip), _mm256_setzero_si256());
        // The low 32 bits of each of 4 + 4 sums. The shuffle works in 128-bit lanes, so pairs of
        // sums come out in the order 0, 2, 1, 3.
        a = _mm256_castps_si256(
            _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
        a = _mm256_permute4x64_epi64(a, 0xd8);
        _mm256_storeu_si256((void *)(sums + i), _mm256_sub_epi32(a, too_much));
    }
    return i;
}

__attribute__((target("avx512bw,avx512vbmi"))) static size_t
int8_map_many(const int8_t *table, const int8_t *x, size_t n, int8_t *y)
{
    __m512i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm512_loadu_si512(table + (size_t)i * 64);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i v = _mm512_loadu_si512(x + i);
        __m512i positive = _mm512_permutex2var_epi8(part[0], v, part[1]);
        __m512i negative = _mm512_permutex2var_epi8(part[2], v, part[3]);
        _mm512_storeu_si512(y + i,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), positive, negative));
    }
    return i;
}

// Rows by vectors of 64, 32 or 16 bytes: stores with a mask are slow, so the last one of a row is
// moved back to end with it.
#define MAP_ROWS(bytes, load, store)                                                               \
    __attribute__((target("avx512bw,avx512vbmi"))) static void int8_map_rows_##bytes(              \
        const int8_t *table, const int8_t *x, ptrdiff_t x_step, size_t n, size_t rows, int8_t *y,  \
        ptrdiff_t y_step)                                                                          \
    {                                                                                              \
        __m512i part[4];                                                                           \
        for (int i = 0; i < 4; i++)                                                                \
            part[i] = _mm512_loadu_si512(table + (size_t)i * 64);                                  \
        for (; rows; rows--, x += x_step, y += y_step)                                             \
            for (size_t i = 0; i < n; i += bytes) {                                                \
                size_t at = i + bytes <= n ? i : n - bytes;                                        \
                __m512i v = load(x + at);                                                          \
                __m512i positive = _mm512_permutex2var_epi8(part[0], v, part[1]);                  \
                __m512i negative = _mm512_permutex2var_epi8(part[2], v, part[3]);                  \
                store(y + at, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), positive, negative)); \
            }                                                                                      \
    }
#define LOAD_64(p)     _mm512_loadu_si512(p)
#define LOAD_32(p)     _mm512_castsi256_si512(_mm256_loadu_si256((const void *)(p)))
#define LOAD_16(p)     _mm512_castsi128_si512(_mm_loadu_si128((const void *)(p)))
#define STORE_64(p, v) _mm512_storeu_si512(p, v)
#define STORE_32(p, v) _mm256_storeu_si256((void *)(p), _mm512_castsi512_si256(v))
#define STORE_16(p, v) _mm_storeu_si128((void *)(p), _mm512_castsi512_si128(v))

MAP_ROWS(64, LOAD_64, STORE_64)
MAP_ROWS(32, LOAD_32, STORE_32)
MAP_ROWS(16, LOAD_16, STORE_16)

// Rows of 16 bytes, four at a time, or of 32, two. Returns how many are done.
__attribute__((target("avx512bw,avx512dq,avx512vbmi"))) static size_t
int8_map_few(const int8_t *table, const int8_t *x, ptrdiff_t x_step, size_t n, size_t rows,
             int8_t *y, ptrdiff_t y_step)
{
    const size_t together = 64 / n;
    __m512i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm512_loadu_si512(table + (size_t)i * 64);
    size_t done = 0;
    for (; done + together <= rows; done += together) {
        const int8_t *x2 = x + x_step * 2;
        int8_t *y2 = y + y_step * 2;
        __m512i v;
        if (n == 32) {
            v = _mm512_inserti64x4(LOAD_32(x), _mm256_loadu_si256((const void *)(x + x_step)), 1);
        } else {
            v = _mm512_inserti32x4(LOAD_16(x), _mm_loadu_si128((const void *)(x + x_step)), 1);
            v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)x2), 2);
            v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(x2 + x_step)), 3);
        }
        __m512i positive = _mm512_permutex2var_epi8(part[0], v, part[1]);
        __m512i negative = _mm512_permutex2var_epi8(part[2], v, part[3]);
        v = _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), positive, negative);
        if (n == 32) {
            STORE_32(y, v);
            _mm256_storeu_si256((void *)(y + y_step), _mm512_extracti64x4_epi64(v, 1));
        } else {
            STORE_16(y, v);
            _mm_storeu_si128((void *)(y + y_step), _mm512_extracti32x4_epi32(v, 1));
            _mm_storeu_si128((void *)y2, _mm512_extracti32x4_epi32(v, 2));
            _mm_storeu_si128((void *)(y2 + y_step), _mm512_extracti32x4_epi32(v, 3));
        }
        x += x_step * (ptrdiff_t)together;
        y += y_step * (ptrdiff_t)together;
    }
    return done;
}

bool int8_maps_rows(size_t n)
{
    return n >= 16 && kernel_has_vbmi();
}

void int8_map_rows(const int8_t *table, const int8_t *x, ptrdiff_t x_step, size_t n, size_t rows,
                   int8_t *y, ptrdiff_t y_step)
{
    if (n == 16 || n == 32) {
        size_t done = int8_map_few(table, x, x_step, n, rows, y, y_step);
        x += x_step * (ptrdiff_t)done;
        y += y_step * (ptrdiff_t)done;
        rows -= done;
    }
    (n >= 64   ? int8_map_rows_64
     : n >= 32 ? int8_map_rows_32
               : int8_map_rows_16)(table, x, x_step, n, rows, y, y_step);
}

#define PIECES 8 // of 16 bytes, of a half of the table

// What 32 indexes of 0 to 127 become; of negative ones 0.
__attribute__((target("avx2"))) static inline __attribute__((always_inline)) __m256i
int8_look_up_half(const __m256i pieces[PIECES], __m256i index)
{
    const __m256i piece = _mm256_set1_epi8(16);
    __m256i v = _mm256_shuffle_epi8(pieces[0], index);
#pragma GCC unroll 8
    for (int i = 1; i < PIECES; i++) {
        index = _mm256_subs_epi8(index, piece);
        v = _mm256_xor_si256(v, _mm256_shuffle_epi8(pieces[i], index));
    }
    return v;
}

__attribute__((target("avx2"))) static size_t int8_map_pieces(const int8_t *table, const int8_t *x,
                                                              size_t n, int8_t *y)
{
    const __m256i flip = _mm256_set1_epi8(-128);
    __m256i halves[2][PIECES];
    size_t i = 0;
    for (int half = 0; half < 2; half++) {
        __m256i before = _mm256_setzero_si256();
        for (int k = 0; k < PIECES; k++, table += 16) {
            __m256i piece = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
            halves[half][k] = _mm256_xor_si256(piece, before);
            before = piece;
        }
    }
    for (; i + 32 <= n; i += 32) {
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        v = _mm256_xor_si256(int8_look_up_half(halves[0], v),
                             int8_look_up_half(halves[1], _mm256_xor_si256(v, flip)));
        _mm256_storeu_si256((void *)(y + i), v);
    }
    return i;
}

static bool int8_can_sum(void)
{
    return kernel_level() >= KERNEL_V3;
}

static bool int8_has_pieces(size_t n)
{
    return n >= PIECES_MIN && kernel_level() >= KERNEL_V3;
}

bool int8_map_is_fast(void)
{
    return kernel_has_vbmi();
}
#else
#ifdef __aarch64__
#include <arm_neon.h>

static size_t int8_sum_many(const int8_t *x, size_t n, int32_t *sums)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        int32x4_t a = vpaddlq_s16(vpaddlq_s8(vld1q_s8(x + 8 * i)));
        int32x4_t b = vpaddlq_s16(vpaddlq_s8(vld1q_s8(x + 8 * i + 16)));
        vst1q_s32(sums + i, vpaddq_s32(a, b));
    }
    return i;
}

static size_t int8_map_many(const int8_t *table, const int8_t *x, size_t n, int8_t *y)
{
    const uint8x16_t quarter = vdupq_n_u8(64);
    int8x16x4_t part[4];
    for (int i = 0; i < 4; i++)
        part[i] = vld1q_s8_x4(table + (size_t)i * 64);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint8x16_t index = vreinterpretq_u8_s8(vld1q_s8(x + i));
        int8x16_t v = vqtbl4q_s8(part[0], index);
        for (int k = 1; k < 4; k++) {
            index = vsubq_u8(index, quarter);
            v = vqtbx4q_s8(v, part[k], index);
        }
        vst1q_s8(y + i, v);
    }
    return i;
}
#else
static size_t int8_sum_many(const int8_t *x, size_t n, int32_t *sums)
{
    (void)x, (void)n, (void)sums;
    return 0;
}

static size_t int8_map_many(const int8_t *table, const int8_t *x, size_t n, int8_t *y)
{
    (void)table, (void)x, (void)n, (void)y;
    return 0;
}
#endif

bool int8_maps_rows(size_t n)
{
    (void)n;
    return false;
}

void int8_map_rows(const int8_t *table, const int8_t *x, ptrdiff_t x_step, size_t n, size_t rows,
                   int8_t *y, ptrdiff_t y_step)
{
    (void)table, (void)x, (void)x_step, (void)n, (void)rows, (void)y, (void)y_step;
    abort(); // int8_maps_rows() is never true
}

static size_t int8_map_pieces(const int8_t *table, const int8_t *x, size_t n, int8_t *y)
{
    return int8_map_many(table, x, n, y);
}

static bool int8_can_sum(void)
{
    return true;
}

static bool int8_has_pieces(size_t n)
{
    (void)n;
    return false;
}

bool int8_map_is_fast(void)
{
#ifdef __aarch64__
    return true;
#else
    return false;
#endif
}
#endif

void int8_sum_eights(const int8_t *x, size_t n, int32_t *sums)
{
    for (size_t i = int8_can_sum() ? int8_sum_many(x, n, sums) : 0; i < n; i++)
        sums[i] = int8_sum_eight(x + 8 * i);
}

// Whether a table only bounds its indexes, as a Relu's and a Clip's of one scale do.
KERNEL(bool, int8_is_clamp, (const int8_t *table, int8_t *ret_low, int8_t *ret_high),
       (table, ret_low, ret_high))
{
    int8_t low = INT8_MAX, high = INT8_MIN;
    int other = 0;
    for (int i = 0; i < 256; i++) {
        low = table[i] < low ? table[i] : low;
        high = table[i] > high ? table[i] : high;
    }
    for (int i = 0; i < 256; i++) {
        int8_t v = (int8_t)i;
        v = v > low ? v : low;
        other |= table[i] ^ (v < high ? v : high);
    }
    *ret_low = low;
    *ret_high = high;
    return !other;
}

// Bytes between two bounds: a minimum and a maximum of whole vectors.
KERNEL(void, int8_clamp, (const int8_t *x, size_t n, int8_t low, int8_t high, int8_t *y),
       (x, n, low, high, y))
{
    for (size_t i = 0; i < n; i++) {
        int8_t v = x[i] > low ? x[i] : low;
        y[i] = v < high ? v : high;
    }
}

void int8_map(const int8_t *table, const int8_t *x, size_t n, int8_t *y)
{
    int8_t low, high;
    if (n >= CLAMP_MIN && !kernel_has_vbmi() && int8_is_clamp(table, &low, &high)) {
        int8_clamp(x, n, low, high, y);
        return;
    }
    size_t i = int8_map_is_fast()   ? int8_map_many(table, x, n, y)
               : int8_has_pieces(n) ? int8_map_pieces(table, x, n, y)
                                    : 0;
    for (; i < n; i++)
        y[i] = table[(uint8_t)x[i]];
}

typedef int8_t vector __attribute__((vector_size(16)));

// The even bytes of a, then those of b.
static inline vector int8_every_other(vector a, vector b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

static inline __attribute__((always_inline)) void int8_take_every(const int8_t *x, size_t step,
                                                                  size_t n, int8_t *y)
{
    vector v[4] = {0};
    size_t i = 0;
    // Not up to the end: a whole vector of the last elements would reach behind x.
    for (; n - i > sizeof *v; i += sizeof *v) {
        memcpy(v, x + i * step, sizeof *v * step);
        if (step == 4) {
            v[0] = int8_every_other(v[0], v[1]);
            v[1] = int8_every_other(v[2], v[3]);
        }
        v[0] = int8_every_other(v[0], v[1]);
        memcpy(y + i, v, sizeof *v);
    }
    for (; i < n; i++)
        y[i] = x[i * step];
}

void int8_take(const int8_t *x, size_t step, size_t n, int8_t *y)
{
    if (step == 2)
        int8_take_every(x, 2, n, y);
    else
        int8_take_every(x, 4, n, y);
}
