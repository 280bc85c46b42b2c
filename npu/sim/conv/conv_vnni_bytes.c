// Sums of bytes, with AVX512-VNNI: window sums where the kernel has no lane to spare (conv_vnni.h).
//
//   sums[pixel] = Σ over segments, Σ over the segment's bytes: x
//
// Why it is fast: 64 bytes are added by one vpdpbusd with ones; 16 pixels have a register each, and
// are added across all at once, in 15 additions (of two shuffles each) instead of 16 times 4:
//
//   16 vectors [pixel][16 partial sums]  ->  8  ->  4  ->  2  ->  1 vector [16 pixels]
//
// Windows of few bytes, as over an image of 3 channels, lie in 128 bytes for all 16 pixels: there
// AVX512-VBMI takes a quad of each at a time, and a lane is a pixel.
//
// Windows over several pixels, and pixels of 16 or 32 bytes, of which several are in a vector, are
// sums of the pixels' own, which are made once however many windows share them.
//
// Sums are exact. Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include <stdlib.h>
#include <string.h>

#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/simd/vbmi.h"
#include "npu/sim/simd/vnni.h"

#ifdef __x86_64__
#define PIXELS_AT_ONCE 16 // pixels

// Adds the first 64 of n bytes of each pixel. Behind the last pixel the last one is read again.
VNNI_INLINE void vnni_add_bytes(const uint8_t *x, size_t pitch, size_t last, size_t n,
                                __m512i *sums)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __mmask64 mask = n < 64 ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
#pragma GCC unroll 16
    for (size_t i = 0; i < PIXELS_AT_ONCE; i++) {
        vnni_add_products(&sums[i], _mm512_maskz_loadu_epi8(mask, x), ones);
        x += i < last ? pitch : 0;
    }
}

// The sums of all elements of each of 16 vectors: each round adds halves of two vectors and puts
// them side by side in one.
VNNI_INLINE __m512i vnni_add_across(__m512i *v)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 2
    for (int n = 2; n; n--)
#pragma GCC unroll 2
        for (int i = 0; i < n; i++)
            v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0x88),
                                    _mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return v[0];
}

VNNI_INLINE void vnni_sum_16(const struct vnni_bytes *b, size_t first, size_t last, int32_t *sums)
{
    __m512i v[PIXELS_AT_ONCE];
#pragma GCC unroll 16
    for (int i = 0; i < PIXELS_AT_ONCE; i++)
        v[i] = _mm512_setzero_si512();
    for (size_t i = 0; i < b->n_segments; i++) {
        const uint8_t *x = b->x + first * b->pitch + i * b->apart;
        for (size_t done = 0; done < b->segment; done += 64)
            vnni_add_bytes(x + done, b->pitch, last, b->segment - done, v);
    }
    _mm512_storeu_si512(sums + first, vnni_add_across(v));
}

#ifdef VBMI
#define NARROW 128 // bytes under the windows of PIXELS_AT_ONCE pixels at most

static size_t vnni_narrow_size(const struct vnni_bytes *b)
{
    return (PIXELS_AT_ONCE - 1) * b->pitch + b->segment;
}

static bool vnni_is_narrow(const struct vnni_bytes *b)
{
    return b->n_segments == 1 && vnni_narrow_size(b) <= NARROW && kernel_has_vbmi();
}

// The last pixels are moved back as below.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi"))) static void
vnni_sum_narrow(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    const size_t quads = (b->segment + 3) / 4, size = vnni_narrow_size(b), bytes = 0x01010101;
    const __mmask64 all = ~(__mmask64)0;
    const __mmask64 low = size < 64 ? all >> (64 - size) : all;
    const __mmask64 high = size > 64 ? all >> (128 - size) : 0;
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i ones = _mm512_set1_epi8(1), next = _mm512_set1_epi8(4);
    const __m512i rest = _mm512_set1_epi32((int32_t)(bytes >> 8 * (4 * quads - b->segment)));
    // Where byte k of lane i is: i * pitch + k.
    const __m512i begin =
        _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int32_t)(b->pitch * bytes))),
                         _mm512_set1_epi32(0x03020100));
    for (size_t i = 0; i < n; i += PIXELS_AT_ONCE) {
        size_t first = i < n - PIXELS_AT_ONCE ? i : n - PIXELS_AT_ONCE;
        const uint8_t *x = b->x + first * b->pitch;
        __m512i sum = _mm512_setzero_si512(), at = begin;
        __m512i x0 = _mm512_maskz_loadu_epi8(low, x), x1 = _mm512_maskz_loadu_epi8(high, x + 64);
        for (size_t q = 0; q < quads; q++, at = _mm512_add_epi8(at, next))
            vnni_add_products(&sum, _mm512_permutex2var_epi8(x0, at, x1),
                              q + 1 < quads ? ones : rest);
        _mm512_storeu_si512(sums + first, sum);
    }
}
#else
static bool vnni_is_narrow(const struct vnni_bytes *b)
{
    (void)b;
    return false;
}

static void vnni_sum_narrow(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    (void)b, (void)n, (void)sums;
    abort();
}
#endif

// The last 16 pixels of many are moved back so that they end where all end.
VNNI_INLINE void vnni_sum_each(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    if (n < PIXELS_AT_ONCE) {
        vnni_sum_16(b, 0, n - 1, sums);
        return;
    }
    if (vnni_is_narrow(b)) {
        vnni_sum_narrow(b, n, sums);
        return;
    }
    for (size_t i = 0; i < n; i += PIXELS_AT_ONCE)
        vnni_sum_16(b, i < n - PIXELS_AT_ONCE ? i : n - PIXELS_AT_ONCE, PIXELS_AT_ONCE - 1, sums);
}

// ---- pixels of the image, which windows share ----

#define MOST_PIXELS 1024 // whose sums are kept

// Four vectors of 4 partial sums in each 128-bit lane become one: that lane's sum of each vector.
VNNI_INLINE __m512i vnni_add_lanes(const uint8_t *x)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_setzero_si512();
        vnni_add_products(&v[i], _mm512_loadu_si512(x + 64 * i), ones);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(v[0], v[1]), _mm512_unpackhi_epi64(v[0], v[1]));
}

// 16 pixels of 16 bytes: a lane is a pixel.
VNNI_INLINE void vnni_sum_pixels_16(const uint8_t *x, int32_t *sums)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(sums, _mm512_permutexvar_epi32(order, vnni_add_lanes(x)));
}

// … of 32 bytes: two neighbouring lanes are.
VNNI_INLINE void vnni_sum_pixels_32(const uint8_t *x, int32_t *sums)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    __m512i first = vnni_add_lanes(x), second = vnni_add_lanes(x + 256);
    __m512i v = _mm512_add_epi32(_mm512_shuffle_i32x4(first, second, 0x88),
                                 _mm512_shuffle_i32x4(first, second, 0xdd));
    _mm512_storeu_si512(sums, _mm512_permutexvar_epi32(order, v));
}

// PIXELS_AT_ONCE pixels or more, one after the other.
VNNI_INLINE void vnni_sum_pixels(const uint8_t *x, size_t pixel, size_t n, int32_t *sums)
{
    const struct vnni_bytes b = {.x = x, .n_segments = 1, .segment = pixel, .pitch = pixel};
    if (pixel != 16 && pixel != 32) {
        vnni_sum_each(&b, n, sums);
        return;
    }
    for (size_t i = 0; i < n; i += PIXELS_AT_ONCE) {
        size_t at = i < n - PIXELS_AT_ONCE ? i : n - PIXELS_AT_ONCE;
        (pixel == 16 ? vnni_sum_pixels_16 : vnni_sum_pixels_32)(x + at * pixel, sums + at);
    }
}

// Sums of n windows, one for each pixel, of `taps` pixels that are `apart` from each other.
VNNI_INLINE void vnni_join_pixels(const int32_t *pixels, size_t taps, size_t apart, size_t n,
                                  int32_t *sums)
{
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (size_t k = 0; k < taps; k++)
            sum += pixels[i + k * apart];
        sums[i] = sum;
    }
}

// As many windows at a time as MOST_PIXELS pixels have; the last ones are moved back where they
// have too few.
VNNI void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    int32_t pixels[MOST_PIXELS];
    const struct vnni_taps taps = vnni_taps_of(b);
    const size_t more = taps.more;
    const bool whole = b->pitch == b->pixel && (b->pixel == 16 || b->pixel == 32);
    if (!(whole || vnni_shares_pixels(b, 64)) || n < PIXELS_AT_ONCE ||
        more + PIXELS_AT_ONCE > MOST_PIXELS) {
        vnni_sum_each(b, n, sums);
        return;
    }
    for (size_t done = 0, count; done < n; done += count) {
        count = n - done < MOST_PIXELS - more ? n - done : MOST_PIXELS - more;
        if (count < PIXELS_AT_ONCE) {
            done = n - PIXELS_AT_ONCE;
            count = PIXELS_AT_ONCE;
        }
        vnni_sum_pixels(b->x + done * b->pitch, b->pixel, count + more, pixels);
        if (taps.n == 1)
            memcpy(sums + done, pixels, count * sizeof *sums);
        else if (taps.n == 3)
            vnni_join_pixels(pixels, 3, taps.apart, count, sums + done);
        else
            vnni_join_pixels(pixels, taps.n, taps.apart, count, sums + done);
    }
}
#elif !defined(__aarch64__) // neon/conv_neon_bytes.c
void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    (void)b, (void)n, (void)sums;
    abort(); // conv_vnni_fits() is never true
}
#endif
