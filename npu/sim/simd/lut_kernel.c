// Sums to int8 by a lookup table, on any CPU: lut_kernel.h has the formula.
//
//   sums --- vectors ---> v[chunk] --- one byte looked up for each ---> dst
//
// Tests: test_sim_lut, on every instruction set.
#include "npu/sim/simd/lut_kernel.h"

#include <math.h>

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/kernel.h"

#define CHUNK       1024      // sums
#define MAX_EXACT   (1 << 24) // floats below hold all integers
#define MAX_ROUNDED (1 << 22) // … and these are rounded by LUT_ROUNDER

// ---- preparation ----

// Whether floats hold all numbers of a channel that do not lie beyond the table's bounds anyway.
static bool lut_channel_fits(double beyond, double bn, double factor, double max_sum)
{
    bool sums = max_sum < MAX_EXACT || (MAX_EXACT * factor - 1) * bn > beyond;
    bool first = max_sum * factor < MAX_ROUNDED || (MAX_ROUNDED - 1) * bn > beyond;
    return sums && first;
}

void lut_set_inputs(struct lut_kernel *k, double bn, const float *factor, size_t channels,
                    double max_sum)
{
    double beyond = fmax(fabs((double)k->bounds[0]), fabs((double)k->bounds[1])) + 2;
    double to_table = (double)LUT_ROUNDER * (1 - bn);
    k->bn = (float)bn;
    k->to_table = (float)to_table;
    k->in_doubles = (double)k->bn < bn || (double)k->bn > bn || (double)k->to_table < to_table ||
                    (double)k->to_table > to_table;
    for (size_t i = 0; i < channels && !k->in_doubles; i++)
        k->in_doubles = !lut_channel_fits(beyond, fabs(bn), fabs((double)factor[i]), max_sum);
}

bool lut_fits_float(const struct lut_kernel *k, const float *factor, size_t channels,
                    double max_sum)
{
    float largest = 0;
    for (size_t i = 0; i < channels; i++)
        largest = fabsf(factor[i]) > largest ? fabsf(factor[i]) : largest;
    double bn = fabs((double)k->bn);
    return max_sum * (double)largest * bn + bn < 1 << 23;
}

// ---- running ----

// From channel `first` on.
KERNEL static void lut_inputs(const struct lut_job *call, const int32_t *sums, size_t first,
                              size_t n, int32_t *restrict v)
{
    const struct lut_job job = *call;
    const struct lut_kernel k = *job.kernel;
    float low = LUT_ROUNDER + (float)k.bounds[0], high = LUT_ROUNDER + (float)k.bounds[1];
    for (size_t at = 0, channel = first; at < n; at += LUT_LANES) {
        const int32_t *bias = job.bias + channel;
        const float *factor = job.factor + channel;
        for (size_t i = 0; i < LUT_LANES; i++) {
            float sum = (float)(int32_t)((uint32_t)sums[at + i] + (uint32_t)bias[i]);
            float x = fmaf(fmaf(sum, factor[i], LUT_ROUNDER), k.bn, k.to_table);
            x = x < low ? low : x;
            x = x > high ? high : x;
            v[at + i] = (int32_t)(float_bits(x) - float_bits(LUT_ROUNDER));
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

static int32_t lut_saturated(double v)
{
    return (int32_t)fmin(fmax(v, INT32_MIN), INT32_MAX);
}

void lut_sums_exact(const struct lut_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        size_t channel = i % job->channels;
        int32_t sum = (int32_t)((uint32_t)job->sums[i] + (uint32_t)job->bias[channel]);
        int32_t v = lut_saturated(rint(sum * (double)job->factor[channel]));
        int32_t w = lut_saturated(rint(v * (double)job->kernel->bn));
        job->dst[i] = lut_stored(job->kernel->lut, w);
    }
}

void lut_sums(const struct lut_job *job)
{
    if (job->kernel->in_doubles)
        lut_sums_exact(job);
    else if (job->kernel->segments)
        lut_sums_vbmi(job);
    else
        lut_sums_any(job);
}
