// From sums of integer convolutions in memory to int8, with NEON: for those that no kernel had in
// registers. conv_requantize_neon.h has the arithmetic, conv_requantize.c formula and rounding.
//
//   sums [pixel][channel]:   16 channels, pixel after pixel, then the next 16 channels
//
// Why it is fast: bias and multipliers of 16 channels stay in registers for all pixels of a chunk,
// whose sums (MAX_SUMS) stay in the L1 cache for the next channels.
//
// Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/neon/conv_requantize_neon.h"

#ifdef __aarch64__
#define MAX_SUMS 4096 // of a chunk

// What a loop over pixels has as constants.
struct neon_form {
    bool nz, complete, narrow; // complete: biases are 0
    enum requant_kind kind;
};

// CONV_LANES channels from `from` on, of n groups. False: some are open.
REQUANT_INLINE bool neon_requantize_lanes(const struct requant_job *call, size_t first, size_t n,
                                          size_t from, const struct neon_form form)
{
    const struct requant_job t = *call;
    size_t at = first * t.channels + from, k = first % t.groups * t.channels + from;
    const struct neon_constants constants = neon_constants(&t);
    struct neon_factors factors[REQUANT_VECTORS];
    int32x4_t bias[REQUANT_VECTORS], nz[REQUANT_VECTORS];
    float32x4_t far = vdupq_n_f32(0);
#pragma GCC unroll 4
    for (size_t v = 0; v < REQUANT_VECTORS; v++) {
        factors[v] = neon_factors(&t, k + 4 * v, form.kind);
        bias[v] = vld1q_s32(t.bias + k + 4 * v);
        nz[v] = form.nz ? vld1q_s32(t.nz + k + 4 * v) : bias[v];
    }
    for (size_t g = 0; g < n; g++, at += t.channels) {
        float32x4_t x[REQUANT_VECTORS], more[REQUANT_VECTORS];
        const bool add = requant_has_addend(form.kind);
        if (add)
            neon_load_addends(&t, &constants, at, more, REQUANT_VECTORS);
#pragma GCC unroll 4
        for (size_t v = 0; v < REQUANT_VECTORS; v++) {
            int32x4_t sums = vld1q_s32(t.sums + at + 4 * v);
            if (!form.complete)
                sums = vaddq_s32(sums, bias[v]);
            if (form.nz)
                sums = vmlaq_n_s32(sums, nz[v], t.window_sums[first + g]);
            x[v] = neon_rounded(&constants, &factors[v], sums, add ? &more[v] : NULL, false,
                                form.kind, &far);
        }
        vst1q_s8(t.dst + at, neon_narrow(&constants, x, form.narrow, form.kind));
    }
    return !neon_is_open(&t, far, form.kind);
}

// Few are open: one pixel's channels after the other. The others come out as they were.
REQUANT_INLINE void neon_close(const struct requant_job *t, const struct requant_part *of,
                               const struct neon_form form)
{
    struct requant_part part = *of;
    part.n = 1;
    for (size_t g = 0; g < of->n; g++, part.first++, part.sums += part.pitch)
        if (!neon_requantize_lanes(t, part.first, 1, part.from, form))
            conv_requantize_exact(t, &part);
}

// The last vector of channels is moved back so that it ends where they end.
REQUANT_INLINE void neon_requantize_each(const struct requant_job *t, const struct neon_form form)
{
    size_t groups_at_once = t->groups > 1 ? 1 : MAX_SUMS / t->channels + 1;
    for (size_t i = 0; i < t->n; i += groups_at_once)
        for (size_t o = 0; o < t->channels; o += CONV_LANES) {
            size_t n = t->n - i < groups_at_once ? t->n - i : groups_at_once,
                   last = t->channels - CONV_LANES;
            size_t from = o < last ? o : last;
            const struct requant_part part = {.sums = t->sums + i * t->channels + from,
                                              .pitch = t->channels,
                                              .first = i,
                                              .n = n,
                                              .from = from,
                                              .count = CONV_LANES};
            if (t->in_doubles)
                conv_requantize_exact(t, &part);
            else if (!neon_requantize_lanes(t, i, n, from, form))
                neon_close(t, &part, form);
        }
}

REQUANT_INLINE void neon_requantize_all(const struct requant_job *t, const bool nz,
                                        const enum requant_kind kind)
{
    if (!nz && t->complete && t->narrow)
        neon_requantize_each(t, (struct neon_form){false, true, true, kind});
    else if (t->narrow)
        neon_requantize_each(t, (struct neon_form){nz, false, true, kind});
    else
        neon_requantize_each(t, (struct neon_form){nz, false, false, kind});
}

#define REQUANT_NEON(name) static void name(const struct requant_job *t)

CONV_REQUANTIZE(conv_requantize_vectors, REQUANT_NEON, neon_requantize_all)
#endif
