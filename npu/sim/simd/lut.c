// The chip's lookup table in integers, and its outcomes as straight lines for vector kernels.
//
// Lines. Stored values of neighbouring numbers differ by few steps, so a segment of some numbers
// has few places where they change. A line in fixed point through these places, rounded down, gives
// all of its values; lut_fit_segments() looks for one. The steeper a table, the shorter the
// segments that are such lines, but the fewer numbers there are until it saturates. Where the
// table's own roundings leave no line, the nearest one is taken and what it misses (one or two
// numbers) is listed.
//
// Tests: test_sim_lut; test_npuref, against files' own programs.
#include "npu/sim/simd/lut.h"

#include <math.h>
#include <string.h>

#include "npu/sim/simd/kernel.h"

#define STEP 32 // numbers from point to point

// ---- one number ----

static int64_t lut_clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

// Right shifts of negative numbers round down, as the chip's do.
static int64_t lut_between(const int16_t *points, int32_t from_start)
{
    int32_t i = from_start / STEP < LUT_POINTS - 2 ? from_start / STEP : LUT_POINTS - 2;
    return points[i] + (int64_t)((points[i + 1] - points[i]) * (from_start - i * STEP) >> 5);
}

static int64_t lut_value(const struct graph_lut *lut, int32_t v)
{
    if (v < -LUT_REACH)
        return lut->below[0] + (((int64_t)v + LUT_REACH) * lut->slope[0] >> lut->slope_shift[0]);
    if (v < 0)
        return lut_between(lut->below, v + LUT_REACH);
    if (v <= LUT_REACH)
        return lut_between(lut->above, v);
    return lut->above[LUT_POINTS - 1] +
           (((int64_t)v - LUT_REACH) * lut->slope[1] >> lut->slope_shift[1]);
}

int8_t lut_stored(const struct graph_lut *lut, int32_t v)
{
    int64_t y = lut_clamp(lut_value(lut, v), INT32_MIN, INT32_MAX) * lut->out_factor;
    uint32_t shift = lut->out_shift;
    int64_t stored = y >> shift, rest = y - (int64_t)((uint64_t)stored << shift);
    int64_t half = shift ? INT64_C(1) << (shift - 1) : INT64_MAX;
    stored += lut->out_offset;
    stored += rest > half || (rest == half && (stored & 1));
    return (int8_t)lut_clamp(stored, -128, 127);
}

// ---- many numbers, as reals ----

#define REALS 512 // at a time

KERNEL(void, lut_fill_values_step, (const int16_t *points, int16_t *restrict dst), (points, dst))
{
    int32_t first = points[0], slope = points[1] - points[0];
    for (int32_t i = 0; i < STEP; i++)
        dst[i] = (int16_t)(first + (slope * i >> 5));
}

void lut_fill_values(const struct graph_lut *lut, int16_t values[LUT_N_DENSE])
{
    const int32_t side = LUT_POINTS - 1;
    for (int32_t i = 0; i < 2 * side; i++)
        lut_fill_values_step(i < side ? lut->below + i : lut->above + (i - side),
                             values + i * STEP);
}

KERNEL(void, lut_numbers, (const float *restrict v, size_t n, int32_t *restrict numbers),
       (v, n, numbers))
{
    for (size_t i = 0; i < n; i++) {
        float above = v[i] > -0x1p30f ? v[i] : -0x1p30f;
        numbers[i] = (int32_t)rintf(above < 0x1p30f ? above : 0x1p30f);
    }
}

// (values * factor / 2^shift + offset - zp) * scale, in doubles but for the last product.
KERNEL(void, lut_values_to_real,
       (const struct graph_lut *lut, const double *restrict values, float scale, int32_t zp,
        size_t n, float *restrict v),
       (lut, values, scale, zp, n, v))
{
    const double factor = lut->out_factor, offset = lut->out_offset, zero = zp,
                 power = ldexp(1, -(int)lut->out_shift);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(values[i] * factor * power + offset - zero) * scale;
}

void lut_reals(const struct graph_lut *lut, const int16_t *values, float scale, int32_t zp,
               float *v, size_t n)
{
    int32_t numbers[REALS];
    double found[REALS];
    for (size_t done = 0; done < n; done += REALS) {
        size_t part = n - done < REALS ? n - done : REALS;
        lut_numbers(v + done, part, numbers);
        for (size_t i = 0; i < part; i++) {
            uint32_t at = (uint32_t)(numbers[i] + LUT_REACH);
            found[i] = at < LUT_N_DENSE ? values[at] : (double)lut_value(lut, numbers[i]);
        }
        lut_values_to_real(lut, found, scale, zp, part, v + done);
    }
}

// ---- all numbers ----

// The numbers from one point to the next, with 32 bits: |y| < 2^15, |factor| < 2^15.
KERNEL(void, lut_fill_step,
       (const struct graph_lut *call, const int16_t *points, int8_t *restrict dst),
       (call, points, dst))
{
    const struct graph_lut *lut = call;
    int32_t first = points[0], slope = points[1] - points[0];
    int32_t factor = lut->out_factor, shift = (int32_t)lut->out_shift;
    int32_t below_half = (1 << (shift - 1)) - 1, offset = lut->out_offset;
    for (int32_t i = 0; i < STEP; i++) {
        int32_t y = (first + (slope * i >> 5)) * factor;
        int32_t odd = ((y >> shift) + offset) & 1;
        int32_t stored = ((y + below_half + odd) >> shift) + offset;
        stored = stored < -128 ? -128 : stored;
        dst[i] = (int8_t)(stored > 127 ? 127 : stored);
    }
}

void lut_fill_dense(const struct graph_lut *lut, int8_t dense[LUT_N_DENSE])
{
    bool fits_int32 = lut->out_shift >= 1 && lut->out_shift <= 29 && lut->out_factor < 1 << 15 &&
                      lut->out_factor > -(1 << 15) && lut->out_offset < 1 << 16 &&
                      lut->out_offset > -(1 << 16);
    for (int32_t i = 0; i < LUT_N_DENSE / STEP; i++) {
        int8_t *to = dense + i * STEP;
        int32_t side = LUT_POINTS - 1;
        if (fits_int32)
            lut_fill_step(lut, i < side ? lut->below + i : lut->above + (i - side), to);
        else
            for (int32_t k = 0; k < STEP; k++)
                to[k] = lut_stored(lut, i * STEP + k - LUT_REACH);
    }
}

// Beyond the tables a stored value never turns back, so one that is that of the farthest number
// stays so: the nearest such number, by halves.
static bool lut_find_bound(const struct graph_lut *lut, bool above, int32_t max, int32_t *ret)
{
    int32_t sign = above ? 1 : -1, low = LUT_REACH, high = max;
    int8_t end = lut_stored(lut, above ? INT32_MAX : INT32_MIN);
    if (lut_stored(lut, sign * max) != end)
        return false;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (lut_stored(lut, sign * middle) == end)
            high = middle;
        else
            low = middle + 1;
    }
    *ret = sign * high;
    return true;
}

bool lut_find_bounds(const struct graph_lut *lut, int32_t max, int32_t ret[2])
{
    return lut_find_bound(lut, false, max, &ret[0]) && lut_find_bound(lut, true, max, &ret[1]);
}

// ---- lines ----

#define MAX_ENDS    (2 * LUT_SEGMENT)
#define LUT_UNIT    256 // of the output
#define NEAR_SLOPES 6

// The first and last numbers of all runs of the same stored value, and the lowest line there: a
// line must reach it and stay less than LUT_UNIT above.
struct lut_ends {
    int n;
    int32_t at[MAX_ENDS], line[MAX_ENDS];
};

// The next place whose neighbour on the right differs, or the last one. Most neighbours are alike.
static int32_t lut_next_change(const int8_t *stored, int32_t i, int32_t n)
{
    uint64_t here, next;
    for (; i + (int32_t)sizeof here < n; i += (int32_t)sizeof here) {
        memcpy(&here, stored + i, sizeof here);
        memcpy(&next, stored + i + 1, sizeof next);
        if (here != next)
            break;
    }
    while (i < n - 1 && stored[i] == stored[i + 1])
        i++;
    return i;
}

static void lut_add_end(const int8_t *stored, int32_t i, struct lut_ends *e)
{
    if (e->n && e->at[e->n - 1] == i)
        return;
    e->at[e->n] = i;
    e->line[e->n++] = stored[i] * LUT_UNIT + LUT_FALL * i;
}

static void lut_find_ends(const int8_t *stored, int32_t n, struct lut_ends *e)
{
    e->n = 0;
    lut_add_end(stored, 0, e);
    for (int32_t i = 0; (i = lut_next_change(stored, i, n)) < n - 1; i++) {
        lut_add_end(stored, i, e);
        lut_add_end(stored, i + 1, e);
    }
    lut_add_end(stored, n - 1, e);
}

static bool lut_changes_after(const struct lut_ends *e, int i)
{
    return e->line[i + 1] - e->line[i] != LUT_FALL * (e->at[i + 1] - e->at[i]);
}

// The slope from the first place where stored values change to the last one, where a line passes
// within a number; between the ends where there are no two.
static int32_t lut_guess_slope(const struct lut_ends *e, uint32_t shift)
{
    int first = 0, last = e->n - 1;
    while (first < last && !lut_changes_after(e, first))
        first++;
    while (last > first && !lut_changes_after(e, last - 1))
        last--;
    bool two = last > first + 1;
    first = two ? first + 1 : 0;
    last = two ? last : e->n - 1;
    int32_t rise = (e->line[last] - e->line[first]) * (1 << shift);
    int32_t slope = rise / (e->at[last] > e->at[first] ? e->at[last] - e->at[first] : 1);
    return slope < 0 ? 0 : slope > UINT8_MAX ? UINT8_MAX : slope;
}

// The offset with which a line of this slope has all values. False: there is none. A slope that is
// far off misses the last end where it has the first one, so that comes next: most slopes that are
// tried end there.
static bool lut_find_offset(const struct lut_ends *e, int32_t slope, uint32_t shift, int32_t *ret)
{
    int32_t low = INT32_MIN, high = INT32_MAX;
    for (int i = 0; i < e->n && low <= high; i++) {
        int k = i == 0 ? 0 : i == 1 ? e->n - 1 : i - 1;
        int32_t from = e->line[k] - (slope * e->at[k] >> shift), to = from + LUT_UNIT - 1;
        low = from > low ? from : low;
        high = to < high ? to : high;
    }
    *ret = low <= high ? low + (high - low) / 2 : 0;
    return low <= high;
}

// Slopes from the likeliest on, in both directions.
static bool lut_find_line(const struct lut_ends *e, uint32_t shift, int32_t *ret_slope,
                          int32_t *ret_offset)
{
    int32_t middle = lut_guess_slope(e, shift);
    for (int32_t i = 0; i <= 2 * UINT8_MAX + 1; i++) {
        *ret_slope = middle + (i % 2 ? -(i / 2) - 1 : i / 2);
        if (*ret_slope >= 0 && *ret_slope <= UINT8_MAX &&
            lut_find_offset(e, *ret_slope, shift, ret_offset))
            return true;
    }
    return false;
}

KERNEL(int, lut_count_wrong,
       (const int8_t *stored, int32_t n, int32_t slope, int32_t offset, uint32_t shift),
       (stored, n, slope, offset, shift))
{
    int wrong = 0;
    for (int32_t l = 0; l < n; l++)
        wrong += (int8_t)((offset + (l * slope >> shift) - LUT_FALL * l) >> 8) != stored[l];
    return wrong;
}

// The line with the fewest wrong numbers of those that pass through a run's first or last number
// just so, with a slope near that between the ends.
static void lut_find_nearest_line(const int8_t *stored, int32_t n, const struct lut_ends *e,
                                  uint32_t shift, int32_t *ret_slope, int32_t *ret_offset)
{
    int32_t middle = lut_guess_slope(e, shift);
    int fewest = LUT_SEGMENT + 1;
    for (int32_t slope = middle - NEAR_SLOPES; slope <= middle + NEAR_SLOPES; slope++)
        for (int i = 0; i < 2 * e->n && slope >= 0 && slope <= UINT8_MAX; i++) {
            int32_t low = e->line[i / 2] - (slope * e->at[i / 2] >> shift);
            int32_t offset = i % 2 ? low + LUT_UNIT - 1 : low;
            int wrong = lut_count_wrong(stored, n, slope, offset, shift);
            if (wrong >= fewest)
                continue;
            fewest = wrong;
            *ret_slope = slope;
            *ret_offset = offset;
        }
}

static bool lut_add_exceptions(const int8_t *stored, uint32_t segment, int32_t slope,
                               int32_t offset, struct lut_segments *ret)
{
    for (int32_t l = 0; l < 1 << ret->bits; l++) {
        int8_t line = (int8_t)((offset + (l * slope >> ret->shift) - LUT_FALL * l) >> 8);
        if (line == stored[l])
            continue;
        if (ret->n_exceptions == LUT_EXCEPTIONS)
            return false;
        ret->exceptions[ret->n_exceptions] = (uint16_t)((segment << ret->bits) + (uint32_t)l);
        ret->values[ret->n_exceptions++] = stored[l];
    }
    return true;
}

// Fits ret's segments with its shift. True: with fewer exceptions than `fewer`.
static bool lut_fit_with(const int8_t *dense, uint32_t fewer, struct lut_segments *ret)
{
    int32_t n = 1 << ret->bits;
    ret->n_exceptions = 0;
    for (uint32_t i = 0; i < ret->n; i++) {
        struct lut_ends ends;
        const int8_t *stored = dense + ret->first + (size_t)i * (size_t)n;
        int32_t slope = 0, offset = 0;
        lut_find_ends(stored, n, &ends);
        if (!lut_find_line(&ends, ret->shift, &slope, &offset)) {
            if (ret->n_exceptions + 1 >= fewer)
                return false;
            lut_find_nearest_line(stored, n, &ends, ret->shift, &slope, &offset);
            if (!lut_add_exceptions(stored, i, slope, offset, ret) || ret->n_exceptions >= fewer)
                return false;
        }
        ret->slope[i] = (uint8_t)slope;
        ret->offset_low[i] = (uint8_t)offset;
        ret->offset_high[i] = (uint8_t)((uint32_t)offset >> 8);
    }
    return true;
}

// The positions between which stored values change.
struct lut_window {
    bool saturates;
    int32_t from, to;
};

static struct lut_window lut_find_window(const int8_t *dense, const int8_t ends[2])
{
    struct lut_window w = {dense[0] == ends[0] && dense[LUT_N_DENSE - 1] == ends[1], 0,
                           LUT_N_DENSE - 1};
    while (w.saturates && w.from < w.to && dense[w.from + 1] == ends[0])
        w.from++;
    while (w.saturates && w.to > w.from && dense[w.to - 1] == ends[1])
        w.to--;
    return w;
}

// Segments of so many numbers that cover the window, from a point of the table on. False: they do
// not.
static bool lut_place_segments(const struct lut_window *w, uint32_t n, uint32_t bits,
                               struct lut_segments *ret)
{
    int32_t size = (int32_t)(n << bits), first = w->from / STEP * STEP;
    if (size > LUT_N_DENSE || w->to - first >= size)
        return false;
    ret->n = n;
    ret->bits = bits;
    ret->saturates = w->saturates;
    ret->first = first < LUT_N_DENSE - size ? first : LUT_N_DENSE - size;
    return true;
}

// With a larger shift slopes are finer, but not as steep.
static void lut_fit_placed(const int8_t *dense, struct lut_segments *next, uint32_t *fewest,
                           struct lut_segments *ret)
{
    for (uint32_t shift = 6; shift-- > 0 && *fewest > 0;) {
        next->shift = shift;
        if (lut_fit_with(dense, next->n < LUT_SEGMENTS ? 1 : *fewest, next)) {
            *ret = *next;
            *fewest = next->n_exceptions;
        }
    }
}

// 128 segments take fewer instructions than 256, but exceptions take more: 128 have none. The
// shortest segments that cover the window are the likeliest to be lines.
bool lut_fit_segments(const int8_t dense[LUT_N_DENSE], const int8_t ends[2],
                      struct lut_segments *ret)
{
    struct lut_segments next = {0};
    struct lut_window window = lut_find_window(dense, ends);
    uint32_t fewest = LUT_EXCEPTIONS + 1;
    for (uint32_t n = LUT_SEGMENTS / 2; n <= LUT_SEGMENTS && fewest > 0; n *= 2)
        for (uint32_t bits = 4; bits <= 8 && fewest > 0; bits++)
            if (lut_place_segments(&window, n, bits, &next))
                lut_fit_placed(dense, &next, &fewest, ret);
    return fewest <= LUT_EXCEPTIONS;
}
