// Sums to int8 by a lookup table, on any CPU: lut_kernel.h has the formula.
//
//   sums --- vectors ---> at[chunk] --- one byte looked up for each ---> dst
//
// Where the table has all numbers within the bounds, there is nothing to ask of a number. Else what
// lies beyond is computed in doubles, exactly, a vector at a time where there is any.
//
// Tests: test_sim_lut, on every instruction set.
#include "npu/sim/simd/lut_kernel.h"

#include <math.h>

#include "base/bytes.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/kernel.h"

#ifdef KERNEL_AVX2
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define LUT_ROUNDER_DOUBLE 0x1.8p52  // as LUT_ROUNDER
#define CHUNK              512       // sums: a multiple of LUT_LANES
#define MOST_DENSE         (1 << 18) // numbers of a table
#define MAX_EXACT          (1 << 24) // floats below hold all integers
#define MAX_ROUNDED        (1 << 22) // … and these are rounded by LUT_ROUNDER

// ---- preparation ----

// What a number of the dense table becomes, which is a v or the chip's table's own.
static int8_t lut_of_number(const struct lut_kernel *k, const int8_t *dense, int32_t number)
{
    double w = number;
    if (k->of_v > 0)
        w = w * k->of_v + LUT_ROUNDER_DOUBLE - LUT_ROUNDER_DOUBLE; // a double has units of 1 there
    return w >= -LUT_REACH && w < LUT_REACH ? dense[(int32_t)w + LUT_REACH]
                                            : lut_stored(k->lut, (int32_t)w);
}

// Numbers at the ends of which more than one become the same are left out.
static void lut_narrow(struct lut_kernel *k, const int8_t *dense)
{
    int32_t *low = &k->bounds[0], *high = &k->bounds[1];
    for (int8_t end = lut_of_number(k, dense, *low);
         *low < *high && lut_of_number(k, dense, *low + 1) == end;)
        ++*low;
    for (int8_t end = lut_of_number(k, dense, *high);
         *high > *low && lut_of_number(k, dense, *high - 1) == end;)
        --*high;
}

// Where v are fewer, they take the place of what they become.
static void lut_take_v(struct lut_kernel *k)
{
    if (k->in_doubles || k->bn <= 1)
        return;
    k->of_v = (double)k->bn;
    k->bounds[0] = (int32_t)floor(k->bounds[0] / k->of_v) - 1;
    k->bounds[1] = (int32_t)ceil(k->bounds[1] / k->of_v) + 1;
    k->bn = 1;
    k->to_table = 0;
}

void lut_choose_dense(struct lut_kernel *k, const int8_t dense[LUT_N_DENSE])
{
    double fewer = k->in_doubles || k->bn <= 1 ? 1 : (double)k->bn;
    bool all = ((double)k->bounds[1] - k->bounds[0]) / fewer < MOST_DENSE - 4;
    if (all) {
        lut_take_v(k);
        lut_narrow(k, dense);
    }
    k->first = all ? k->bounds[0] : -LUT_REACH;
    k->n_dense = all ? k->bounds[1] - k->bounds[0] + 1 : LUT_N_DENSE;
}

void lut_fill(const struct lut_kernel *k, const int8_t dense[LUT_N_DENSE], int8_t *to)
{
    for (int32_t i = 0; i < k->n_dense; i++)
        to[i] = lut_of_number(k, dense, k->first + i);
}

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

// Positions in the dense table, from channel `first` on.
KERNEL(void, lut_inputs,
       (const struct lut_job *call, const int32_t *sums, size_t first, size_t n,
        uint32_t *restrict at),
       (call, sums, first, n, at))
{
    const struct lut_job job = *call;
    const struct lut_kernel k = *job.kernel;
    // Of bits, which are ordered as their floats are: bounds are positive ones.
    int32_t low = (int32_t)float_bits(LUT_ROUNDER + (float)k.bounds[0]);
    int32_t high = (int32_t)float_bits(LUT_ROUNDER + (float)k.bounds[1]);
    int32_t start = (int32_t)float_bits(LUT_ROUNDER) + k.first;
    size_t advance = LUT_LANES % job.channels;
    for (size_t done = 0, channel = first; done < n; done += LUT_LANES) {
        const int32_t *bias = job.bias + channel;
        const float *factor = job.factor + channel;
        for (size_t i = 0; i < LUT_LANES; i++) {
            float sum = (float)(int32_t)((uint32_t)sums[done + i] + (uint32_t)bias[i]);
            float x = fmaf(fmaf(sum, factor[i], LUT_ROUNDER), k.bn, k.to_table);
            int32_t bits = (int32_t)float_bits(x);
            bits = bits < low ? low : bits;
            bits = bits > high ? high : bits;
            at[done + i] = (uint32_t)(bits - start);
        }
        channel += advance;
        channel -= channel >= job.channels ? job.channels : 0;
    }
}

// Eight outcomes are joined in a register: with a store, or a jump, for each of them an element
// takes longer.
static void lut_look_up(const int8_t *restrict dense, const uint32_t *restrict at, size_t n,
                        int8_t *restrict dst)
{
    const uint8_t *bytes = (const uint8_t *)dense;
    for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t many = 0;
#pragma GCC unroll 8
        for (size_t i = 0; i < sizeof many; i++)
            many |= (uint64_t)bytes[at[i]] << 8 * i;
        write_le64((uint8_t *)dst, many);
        dst += sizeof many;
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = dense[at[i]];
}

// What lies beyond the chip's tables, by doubles: lines from their last points on.
//   y = edge + floor((v - from) * slope)      stored = round(y * factor + offset)
struct lut_lines {
    double edge[2], slope[2];
    double factor, offset; // offset: with LUT_ROUNDER_DOUBLE
    bool above;            // nothing lies below the tables, and floats are exact above
};

static struct lut_lines lut_lines(const struct lut_kernel *k)
{
    const struct graph_lut *lut = k->lut;
    struct lut_lines l = {
        .above = k->bounds[0] >= k->first && lut_fits_lines(lut, k->bounds),
        .edge = {lut->below[0], lut->above[LUT_POINTS - 1]},
        .factor = ldexp(lut->out_factor, -(int)lut->out_shift),
        .offset = LUT_ROUNDER_DOUBLE + lut->out_offset,
    };
    for (int side = 0; side < 2; side++)
        l.slope[side] = ldexp(lut->slope[side], -(int)lut->slope_shift[side]);
    return l;
}

// What LUT_LANES numbers become that lie beyond the tables; of others anything. Without branches:
// of the distances below and above one is 0, which adds nothing.
#ifdef KERNEL_AVX2
KERNEL_AVX2 static void lut_beyond_avx2(const struct lut_lines *l, const uint32_t *at,
                                        uint32_t first, int32_t *dst)
{
    const __m128i zero = _mm_setzero_si128(), reach = _mm_set1_epi32(LUT_REACH);
    for (size_t i = 0; i < LUT_LANES; i += 4) {
        __m128i v = _mm_loadu_si128((const void *)(at + i));
        v = _mm_add_epi32(v, _mm_set1_epi32((int32_t)first));
        __m256d below = _mm256_cvtepi32_pd(_mm_min_epi32(_mm_add_epi32(v, reach), zero));
        __m256d above = _mm256_cvtepi32_pd(_mm_max_epi32(_mm_sub_epi32(v, reach), zero));
        __m256d edge = _mm256_blendv_pd(_mm256_set1_pd(l->edge[1]), _mm256_set1_pd(l->edge[0]),
                                        _mm256_cvtepi32_pd(v)); // by the sign
        __m256d y =
            _mm256_add_pd(_mm256_floor_pd(_mm256_mul_pd(below, _mm256_set1_pd(l->slope[0]))),
                          _mm256_floor_pd(_mm256_mul_pd(above, _mm256_set1_pd(l->slope[1]))));
        y = _mm256_max_pd(_mm256_add_pd(y, edge), _mm256_set1_pd(INT32_MIN));
        y = _mm256_min_pd(y, _mm256_set1_pd(INT32_MAX));
        y = _mm256_fmadd_pd(y, _mm256_set1_pd(l->factor), _mm256_set1_pd(l->offset));
        y = _mm256_max_pd(y, _mm256_set1_pd(LUT_ROUNDER_DOUBLE - 128));
        y = _mm256_min_pd(y, _mm256_set1_pd(LUT_ROUNDER_DOUBLE + 127));
        y = _mm256_sub_pd(y, _mm256_set1_pd(LUT_ROUNDER_DOUBLE));
        _mm_storeu_si128((void *)(dst + i), _mm256_cvtpd_epi32(y));
    }
}

// The same above the tables alone, by float. The product is rounded down as it is to nearest,
// less 1 where that is more: what it differs by is exact, since it has few bits.
KERNEL_AVX2 static void lut_above_avx2(const struct lut_lines *l, const uint32_t *at,
                                       uint32_t first, int32_t *dst)
{
    const __m256 rounder = _mm256_set1_ps(LUT_ROUNDER), slope = _mm256_set1_ps((float)l->slope[1]);
    const __m256 edge = _mm256_set1_ps((float)l->edge[1]);
    const __m256 offset = _mm256_set1_ps((float)(l->offset - LUT_ROUNDER_DOUBLE) + LUT_ROUNDER);
    for (size_t i = 0; i < LUT_LANES; i += 8) {
        __m256i v = _mm256_loadu_si256((const void *)(at + i));
        v = _mm256_add_epi32(v, _mm256_set1_epi32((int32_t)first - LUT_REACH));
        __m256 from = _mm256_cvtepi32_ps(_mm256_max_epi32(v, _mm256_setzero_si256()));
        __m256 y = _mm256_sub_ps(_mm256_fmadd_ps(from, slope, rounder), rounder);
        __m256 more =
            _mm256_cmp_ps(_mm256_fmsub_ps(from, slope, y), _mm256_setzero_ps(), _CMP_LT_OQ);
        y = _mm256_sub_ps(y, _mm256_and_ps(more, _mm256_set1_ps(1)));
        y = _mm256_fmadd_ps(_mm256_add_ps(y, edge), _mm256_set1_ps((float)l->factor), offset);
        y = _mm256_max_ps(y, _mm256_set1_ps(LUT_ROUNDER - 128));
        y = _mm256_min_ps(y, _mm256_set1_ps(LUT_ROUNDER + 127));
        _mm256_storeu_si256((void *)(dst + i),
                            _mm256_sub_epi32(_mm256_castps_si256(y), _mm256_castps_si256(rounder)));
    }
}

// Puts what becomes of those of LUT_LANES positions that are beyond the table in their places.
KERNEL_AVX2 static void lut_put_beyond_avx2(const struct lut_kernel *k,
                                            const struct lut_lines *lines, const uint32_t *at,
                                            int8_t *dst)
{
    uint32_t n_dense = (uint32_t)k->n_dense;
    int32_t beyond[LUT_LANES];
    (lines->above ? lut_above_avx2 : lut_beyond_avx2)(lines, at, (uint32_t)k->first, beyond);
    for (size_t i = 0; i < LUT_LANES; i++)
        dst[i] = (int8_t)(at[i] < n_dense ? dst[i] : beyond[i]);
}
#elif defined(__aarch64__)
// As lut_above_avx2().
static void lut_above_neon(const struct lut_lines *l, const uint32_t *at, uint32_t first,
                           int32_t *dst)
{
    const float32x4_t rounder = vdupq_n_f32(LUT_ROUNDER), slope = vdupq_n_f32((float)l->slope[1]);
    const float32x4_t edge = vdupq_n_f32((float)l->edge[1]);
    const float offset = (float)(l->offset - LUT_ROUNDER_DOUBLE) + LUT_ROUNDER;
    for (size_t i = 0; i < LUT_LANES; i += 4) {
        int32x4_t v = vreinterpretq_s32_u32(vld1q_u32(at + i));
        v = vaddq_s32(v, vdupq_n_s32((int32_t)first - LUT_REACH));
        const float32x4_t from = vcvtq_f32_s32(vmaxq_s32(v, vdupq_n_s32(0)));
        float32x4_t y = vsubq_f32(vfmaq_f32(rounder, from, slope), rounder);
        const uint32x4_t more = vcgtzq_f32(vfmsq_f32(y, from, slope));
        y = vaddq_f32(y, vcvtq_f32_s32(vreinterpretq_s32_u32(more))); // -1 where it is more
        y = vfmaq_f32(vdupq_n_f32(offset), vaddq_f32(y, edge), vdupq_n_f32((float)l->factor));
        y = vmaxq_f32(y, vdupq_n_f32(LUT_ROUNDER - 128));
        y = vminq_f32(y, vdupq_n_f32(LUT_ROUNDER + 127));
        vst1q_s32(dst + i, vsubq_s32(vreinterpretq_s32_f32(y), vreinterpretq_s32_f32(rounder)));
    }
}
#endif

static void lut_put_beyond(const struct lut_kernel *k, const struct lut_lines *lines,
                           const uint32_t *at, int8_t *dst)
{
#ifdef KERNEL_AVX2
    if (kernel_has_avx2()) {
        lut_put_beyond_avx2(k, lines, at, dst);
        return;
    }
#elif defined(__aarch64__)
    if (lines->above) {
        int32_t beyond[LUT_LANES];
        lut_above_neon(lines, at, (uint32_t)k->first, beyond);
        for (size_t i = 0; i < LUT_LANES; i++)
            dst[i] = (int8_t)(at[i] < (uint32_t)k->n_dense ? dst[i] : beyond[i]);
        return;
    }
#endif
    (void)lines;
    for (size_t i = 0; i < LUT_LANES; i++)
        if (at[i] >= (uint32_t)k->n_dense)
            dst[i] = lut_stored(k->lut, (int32_t)(at[i] + (uint32_t)k->first));
}

// Positions with the table's beginning in place of what is beyond it, and for each LUT_LANES
// whether there is any such.
KERNEL(void, lut_bound,
       (const uint32_t *restrict at, uint32_t n_dense, size_t n, uint32_t *restrict inside,
        bool *restrict any),
       (at, n_dense, n, inside, any))
{
    for (size_t done = 0; done < n; done += LUT_LANES) {
        uint32_t beyond = 0;
        for (size_t i = done; i < done + LUT_LANES; i++) {
            inside[i] = at[i] < n_dense ? at[i] : 0;
            beyond |= at[i] >= n_dense;
        }
        any[done / LUT_LANES] = beyond;
    }
}

// Positions may be beyond the table: looked up are all, then those beyond are put in.
static void lut_look_up_any(const struct lut_kernel *k, const uint32_t *at, size_t n, int8_t *dst)
{
    const struct lut_lines lines = lut_lines(k);
    uint32_t inside[CHUNK];
    bool any[CHUNK / LUT_LANES];
    lut_bound(at, (uint32_t)k->n_dense, n, inside, any);
    lut_look_up(k->dense, inside, n, dst);
    for (size_t done = 0; done < n; done += LUT_LANES) {
        int8_t stored[LUT_LANES];
        size_t count = n - done < LUT_LANES ? n - done : LUT_LANES;
        if (!any[done / LUT_LANES])
            continue;
        memcpy(stored, dst + done, count);
        lut_put_beyond(k, &lines, at + done, stored);
        memcpy(dst + done, stored, count);
    }
}

void lut_sums_any(const struct lut_job *job)
{
    const struct lut_kernel *k = job->kernel;
    uint32_t at[CHUNK];
    bool covered = k->first <= k->bounds[0] && k->bounds[1] < k->first + k->n_dense;
    for (size_t done = 0; done < job->n; done += CHUNK) {
        size_t n = job->n - done < CHUNK ? job->n - done : CHUNK;
        lut_inputs(job, job->sums + done, done % job->channels, n, at);
        if (covered)
            lut_look_up(k->dense, at, n, job->dst + done);
        else
            lut_look_up_any(k, at, n, job->dst + done);
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
    else if (job->kernel->steps)
        lut_sums_steps(job);
    else if (job->kernel->segments)
        lut_sums_lines(job);
    else
        lut_sums_any(job);
}
