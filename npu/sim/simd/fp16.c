// fp16 to float and back, 16 (AVX512) or 8 (F16C) contiguous numbers at a time, others one by one.
// Compilers do not make vectors of these conversions themselves.
//
//   src  | h0 h1 … h15 |  vcvtph2ps -->  dst  | f0 f1 … f15 |        and back by vcvtps2ph
//
// To float is exact; to fp16 rounds to nearest, ties to even. NaN stays NaN, what is too large
// becomes infinite. Four with NEON. Both ways are one load, one conversion and one store for each
// vector.
//
// Tests: test_sim_fp16; tensor/convert_number.c has the same conversions in plain C.
#include "npu/sim/simd/fp16.h"

#include <string.h>

#include "npu/sim/simd/kernel.h"
#include "tensor/convert.h"

// A compiler that has _Float16 uses the CPU's instructions for it.
#ifdef __FLT16_MAX__
typedef _Float16 unaligned_f16 __attribute__((aligned(1), may_alias));
#define TO_FLOAT(h) ((float)(h))
#define TO_FP16(f)  ((_Float16)(f))
#else
typedef uint16_t unaligned_f16 __attribute__((aligned(1), may_alias));
#define TO_FLOAT(h) convert_fp16_to_float(h)
#define TO_FP16(f)  convert_float_to_fp16(f)
#endif

// Contiguous numbers. Both return how many of n they have converted.
#ifdef __x86_64__
#include <immintrin.h>

// Every CPU with AVX2 has F16C too, which not every compiler can ask for.
static bool fp16_has_f16c(void)
{
    return kernel_level() >= KERNEL_V3;
}

static bool fp16_has_avx512(void)
{
    return kernel_level() == KERNEL_V4;
}

__attribute__((target("avx,f16c"))) static size_t fp16_load_8(const unaligned_f16 *src, size_t n,
                                                              float *dst)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i))));
    return i;
}

__attribute__((target("avx512f"))) static size_t fp16_load_16(const unaligned_f16 *src, size_t n,
                                                              float *dst)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(src + i))));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t fp16_store_8(unaligned_f16 *dst, size_t n,
                                                               const float *src)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i fp16 = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((void *)(dst + i), fp16);
    }
    return i;
}

__attribute__((target("avx512f"))) static size_t fp16_store_16(unaligned_f16 *dst, size_t n,
                                                               const float *src)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        // The intrinsic without a mask is a macro with a signed mask when not optimizing: it warns.
        __m256i fp16 =
            _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256((void *)(dst + i), fp16);
    }
    return i;
}

// The last ones go through a vector in memory: a call of the compiler's library for each of them
// takes as long as that.
static size_t fp16_load_contiguous(const unaligned_f16 *src, size_t n, float *dst)
{
    size_t done = fp16_has_avx512() ? fp16_load_16(src, n, dst) : 0;
    if (!fp16_has_f16c())
        return done;
    done += fp16_load_8(src + done, n - done, dst + done);
    if (done < n) {
        unaligned_f16 last[8] = {0};
        float real[8];
        memcpy(last, src + done, (n - done) * sizeof *last);
        fp16_load_8(last, 8, real);
        memcpy(dst + done, real, (n - done) * sizeof *real);
    }
    return n;
}

static size_t fp16_store_contiguous(unaligned_f16 *dst, size_t n, const float *src)
{
    size_t done = fp16_has_avx512() ? fp16_store_16(dst, n, src) : 0;
    if (!fp16_has_f16c())
        return done;
    done += fp16_store_8(dst + done, n - done, src + done);
    if (done < n) {
        unaligned_f16 last[8];
        float real[8] = {0};
        memcpy(real, src + done, (n - done) * sizeof *real);
        fp16_store_8(last, 8, real);
        memcpy(dst + done, last, (n - done) * sizeof *last);
    }
    return n;
}
#elif defined(__aarch64__)
#include <arm_neon.h>

// Sixteen in a round, while there are as many: of fewer the loop takes more than the conversions.
static inline __attribute__((always_inline)) void fp16_load_4(const uint16_t *src, float *dst)
{
    vst1q_f32(dst, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src))));
}

static inline __attribute__((always_inline)) void fp16_load_8(const uint16_t *src, float *dst)
{
    float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(src));
    vst1q_f32(dst, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(dst + 4, vcvt_high_f32_f16(x));
}

static size_t fp16_load_contiguous(const unaligned_f16 *src, size_t n, float *dst)
{
    const uint16_t *halves = (const void *)src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        fp16_load_8(halves + i, dst + i);
        fp16_load_8(halves + i + 8, dst + i + 8);
    }
    for (; i + 4 <= n; i += 4)
        fp16_load_4(halves + i, dst + i);
    return i;
}

static inline __attribute__((always_inline)) void fp16_store_8(uint16_t *dst, const float *src)
{
    float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(src)), vld1q_f32(src + 4));
    vst1q_u16(dst, vreinterpretq_u16_f16(halves));
}

static size_t fp16_store_contiguous(unaligned_f16 *dst, size_t n, const float *src)
{
    uint16_t *halves = (void *)dst;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        fp16_store_8(halves + i, src + i);
        fp16_store_8(halves + i + 8, src + i + 8);
    }
    for (; i + 4 <= n; i += 4)
        vst1_u16(halves + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src + i))));
    return i;
}
#else
static size_t fp16_load_contiguous(const unaligned_f16 *src, size_t n, float *dst)
{
    (void)src, (void)n, (void)dst;
    return 0;
}

static size_t fp16_store_contiguous(unaligned_f16 *dst, size_t n, const float *src)
{
    (void)dst, (void)n, (void)src;
    return 0;
}
#endif

#define GATHERED 64 // numbers that lie apart are brought together first, as vectors take them

void fp16_load(const void *src, int64_t stride, size_t n, float *dst)
{
    const unaligned_f16 *fp16 = src;
    unaligned_f16 some[GATHERED];
    for (; stride != 1 && n >= GATHERED; n -= GATHERED, dst += GATHERED) {
        for (size_t i = 0; i < GATHERED; i++)
            memcpy(&some[i], &fp16[(int64_t)i * stride], sizeof *some);
        fp16 += GATHERED * stride;
        for (size_t i = fp16_load_contiguous(some, GATHERED, dst); i < GATHERED; i++)
            dst[i] = TO_FLOAT(some[i]);
    }
    for (size_t i = stride == 1 ? fp16_load_contiguous(fp16, n, dst) : 0; i < n; i++)
        dst[i] = TO_FLOAT(fp16[(int64_t)i * stride]);
}

void fp16_store(void *dst, int64_t stride, size_t n, const float *src)
{
    unaligned_f16 *fp16 = dst, some[GATHERED];
    for (; stride != 1 && n >= GATHERED; n -= GATHERED, src += GATHERED) {
        for (size_t i = fp16_store_contiguous(some, GATHERED, src); i < GATHERED; i++)
            some[i] = TO_FP16(src[i]);
        for (size_t i = 0; i < GATHERED; i++)
            memcpy(&fp16[(int64_t)i * stride], &some[i], sizeof *some);
        fp16 += GATHERED * stride;
    }
    for (size_t i = stride == 1 ? fp16_store_contiguous(fp16, n, src) : 0; i < n; i++)
        fp16[(int64_t)i * stride] = TO_FP16(src[i]);
}
