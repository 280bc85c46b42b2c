// Sums to int8 by a lookup table, on any CPU: lut_kernel.h has the formula.
//
//   sums --- vectors ---> v[chunk] --- one byte looked up for each ---> dst
//
// Compiled without contracted products, so that the product is rounded as the formula has it.
//
// Tests: test_sim_lut, on every instruction set.
#include "npu/sim/simd/lut_kernel.h"

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/kernel.h"

#define CHUNK 1024 // sums

// From channel `first` on.
KERNEL static void lut_inputs(const struct lut_job *call, const int32_t *sums, size_t first,
                              size_t n, int32_t *restrict v)
{
    const struct lut_job job = *call;
    float low = (float)job.kernel->bounds[0], high = (float)job.kernel->bounds[1];
    for (size_t at = 0, channel = first; at < n; at += LUT_LANES) {
        const int32_t *bias = job.bias + channel;
        const float *factor = job.factor + channel;
        for (size_t i = 0; i < LUT_LANES; i++) {
            float x = (float)(int32_t)((uint32_t)sums[at + i] + (uint32_t)bias[i]) * factor[i];
            x = x < low ? low : x;
            x = x > high ? high : x;
            v[at + i] = (int32_t)(float_bits(x + LUT_ROUNDER) - float_bits(LUT_ROUNDER));
        }
        channel = (channel + LUT_LANES) % job.channels;
    }
}

static void lut_look_up(const struct lut_kernel *k, const int32_t *restrict v, size_t n,
                        int8_t *restrict dst)
{
    uint32_t beyond = 0;
    const int8_t *dense = k->dense;
    for (size_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)(v[i] + LUT_REACH);
        beyond |= at;
        dst[i] = dense[at % LUT_N_DENSE];
    }
    if (beyond < LUT_N_DENSE)
        return;
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)(v[i] + LUT_REACH) >= LUT_N_DENSE)
            dst[i] = lut_stored(k->lut, v[i]);
}

void lut_sums_any(const struct lut_job *job)
{
    int32_t v[CHUNK + LUT_LANES];
    for (size_t at = 0; at < job->n; at += CHUNK) {
        size_t n = job->n - at < CHUNK ? job->n - at : CHUNK;
        lut_inputs(job, job->sums + at, at % job->channels, n, v);
        lut_look_up(job->kernel, v, n, job->dst + at);
    }
}

void lut_sums(const struct lut_job *job)
{
    if (job->kernel->segments)
        lut_sums_vbmi(job);
    else
        lut_sums_any(job);
}
