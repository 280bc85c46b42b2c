// What kernels of lookup tables share: the walk over a job's sums, 64 at a time, and a function for
// each kind of job by segments, in which all that the kind says is a constant; with NEON how bytes
// of a table are looked up.
#pragma once

#include <string.h>
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#include "npu/sim/simd/lut_kernel.h"

#define LUT_AT_ONCE 64

struct lut_kind {
    bool halves;    // 256 segments, not 128
    bool saturates; // nothing but the segments is needed
    bool above;     // numbers below the segments are clamped: what lies beyond lies above
    bool complete;  // as lut_job.complete
};

// Does `call`, in which `sums` are LUT_AT_ONCE of them, `channel` is that of the first one, and
// `to` is where their bytes go. What is left at the end is copied there and back.
#define LUT_EACH(job, call)                                                                        \
    do {                                                                                           \
        size_t at = 0, channel = 0, advance = LUT_AT_ONCE % (job)->channels;                       \
        for (; at + LUT_AT_ONCE <= (job)->n; at += LUT_AT_ONCE) {                                  \
            const int32_t *sums = (job)->sums + at;                                                \
            int8_t *to = (job)->dst + at;                                                          \
            call;                                                                                  \
            channel += advance;                                                                    \
            channel -= channel >= (job)->channels ? (job)->channels : 0;                           \
        }                                                                                          \
        if (at < (job)->n) {                                                                       \
            int32_t sums[LUT_AT_ONCE] = {0};                                                       \
            int8_t to[LUT_AT_ONCE];                                                                \
            memcpy(sums, (job)->sums + at, ((job)->n - at) * sizeof *sums);                        \
            call;                                                                                  \
            memcpy((job)->dst + at, to, (job)->n - at);                                            \
        }                                                                                          \
    } while (0)

#define LUT_KIND(target, all, name, ...)                                                           \
    target static void name(const struct lut_job *job)                                             \
    {                                                                                              \
        all(job, (struct lut_kind){__VA_ARGS__});                                                  \
    }

// run_kind(job, beyond), of all(job, kind), which is inlined; `beyond`: 0 where numbers on both
// sides of the segments need more than these, 1 where those above do, 2 where none does.
#define LUT_KINDS(target, all)                                                                     \
    LUT_KIND(target, all, both_sides, false, false, false, false)                                  \
    LUT_KIND(target, all, both_sides_complete, false, false, false, true)                          \
    LUT_KIND(target, all, above, false, false, true, false)                                        \
    LUT_KIND(target, all, above_complete, false, false, true, true)                                \
    LUT_KIND(target, all, saturating, false, true, false, false)                                   \
    LUT_KIND(target, all, saturating_complete, false, true, false, true)                           \
    LUT_KIND(target, all, halves, true, false, false, false)                                       \
    LUT_KIND(target, all, halves_complete, true, false, false, true)                               \
    LUT_KIND(target, all, halves_above, true, false, true, false)                                  \
    LUT_KIND(target, all, halves_above_complete, true, false, true, true)                          \
    LUT_KIND(target, all, halves_saturating, true, true, false, false)                             \
    LUT_KIND(target, all, halves_saturating_complete, true, true, false, true)                     \
    static void run_kind(const struct lut_job *job, int beyond)                                    \
    {                                                                                              \
        static void (*const kinds[2][3][2])(const struct lut_job *job) = {                         \
            {{both_sides, both_sides_complete},                                                    \
             {above, above_complete},                                                              \
             {saturating, saturating_complete}},                                                   \
            {{halves, halves_complete},                                                            \
             {halves_above, halves_above_complete},                                                \
             {halves_saturating, halves_saturating_complete}}};                                    \
        bool in_halves = job->kernel->segments->n > LUT_SEGMENTS / 2;                              \
        kinds[in_halves][beyond][job->complete](job);                                              \
    }

#ifdef __aarch64__
#define NEON_INLINE static inline __attribute__((always_inline, no_sanitize("undefined")))
#define VECTORS     4 // of 16 sums each

/// Bytes of a table of 128 segments, or of 256 (`halves`).
NEON_INLINE void neon_look_up(const uint8_t *table, const uint8x16_t k[VECTORS], const bool halves,
                              uint8x16_t to[VECTORS])
{
    const uint8x16_t quarter = vdupq_n_u8(64);
    const int quarters = halves ? 4 : 2;
    uint8x16_t at[VECTORS];
#pragma GCC unroll 4
    for (int q = 0; q < quarters; q++) {
        const uint8x16x4_t part = vld1q_u8_x4(table + 64 * q);
#pragma GCC unroll 4
        for (int i = 0; i < VECTORS; i++) {
            at[i] = q ? vsubq_u8(at[i], quarter) : k[i];
            to[i] = q ? vqtbx4q_u8(to[i], part, at[i]) : vqtbl4q_u8(part, at[i]);
        }
    }
}
#endif
