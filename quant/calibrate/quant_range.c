// Three ways to choose a range from a histogram. All work on the bins' middles, in doubles.
#include "quant/calibrate/quant_range.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FACTORS    32  // 1, .975, … .225
#define LEVELS     256 // of 8 bits
#define SOME       64  // weights
#define FIRST_HALF 128 // bins of the narrowest candidate of KL, and how much wider the next is
#define HALF_STEP  16
#define FEWEST     OBSERVER_BINS // values of which a histogram says what to cut off

static double range_factor(int i)
{
    return 1 - 0.025 * i;
}

// The largest number: 127 or 32767.
static double range_most(uint8_t bits)
{
    return (double)((1 << (bits - 1)) - 1);
}

// A scale that can be written: not 0, where nothing but 0 was seen, and the next power of two.
static float range_scale(double span, struct quant_store store)
{
    int power;
    if (!((float)span > 1e-30F))
        return 1;
    if (!store.power_of_two)
        return (float)span;
    double part = frexp(span, &power); // span = part * 2^power, part from .5 on
    return ldexpf(1, part > 0.5 ? power : power - 1);
}

// Scale and zero point of a range, which always has 0 in it: padding and Relu must be exact. The
// zero point is rounded, so the range that is stored can lie up to half a step beside the one that
// was asked for.
struct quant_form quant_form_of_range(struct quant_range r, struct quant_store store)
{
    float low = fminf(r.low, 0), high = fmaxf(r.high, 0);
    double most = range_most(store.bits), span = ((double)high - low) / (2 * most + 1);
    if (store.symmetric)
        span = fmax(-(double)low, high) / most;
    struct quant_form f = {.scale = range_scale(span, store), .zp = 0, .bits = store.bits};
    if (!store.symmetric)
        f.zp =
            (int32_t)fmin(fmax(rint(-most - 1 - (double)low / (double)f.scale), -most - 1), most);
    // Where saturation is to do what a Clip does, the largest number may not be above its bound.
    while (!store.symmetric && !store.power_of_two && low >= 0 && high > 0 &&
           (float)((int32_t)most - f.zp) * f.scale > high)
        f.scale = nextafterf(f.scale, 0);
    return f;
}

// What a quotient is stored as. Halves go to the even number, as QuantizeLinear has it.
static double range_stored(struct quant_form f, double quotient)
{
    double most = range_most(f.bits);
    return fmin(fmax(rint(quotient) + f.zp, -most - 1), most);
}

// In floats, as other programs look at it. *steps: how far the farther end is beyond its bound.
static bool range_ends_within(struct quant_form f, float lo, float hi, double *steps)
{
    int32_t least = f.bits == 8 ? INT8_MIN : INT16_MIN, most = f.bits == 8 ? INT8_MAX : INT16_MAX;
    float low = (float)(least - f.zp) * f.scale, high = (float)(most - f.zp) * f.scale;
    *steps = fmax((double)lo - (double)low, (double)high - (double)hi) / (double)f.scale;
    return low >= lo && high <= hi;
}

// With so many steps below and above 0: as wide as the range, or as the bounds let it be.
// *ret_lost: what of the range lies outside.
static struct quant_range range_of_steps(struct quant_range r, float lo, float hi, double below,
                                         double above, double *ret_lost)
{
    double wanted = 0, most = INFINITY;
    if (below > 0) {
        wanted = -(double)r.low / below;
        most = -(double)lo / below;
    }
    if (above > 0) {
        wanted = fmax(wanted, (double)r.high / above);
        most = fmin(most, (double)hi / above);
    }
    double scale = fmin(wanted, most);
    *ret_lost = fmax(-(double)r.low - below * scale, (double)r.high - above * scale);
    return (struct quant_range){(float)(-below * scale), (float)(above * scale)};
}

// Floats say where an end is to a hundredth of a step. The zero point stays or moves by one,
// whichever costs less; a float's rounding may want the last bits of the scale, too.
struct quant_range quant_range_within_bounds(struct quant_range r, float lo, float hi,
                                             struct quant_store store)
{
    const struct quant_form f = quant_form_of_range(r, store);
    struct quant_range best = r;
    double all = 2 * range_most(f.bits) + 1, below = f.zp + range_most(f.bits) + 1, steps;
    double least = INFINITY;
    if (store.symmetric || store.power_of_two || range_ends_within(f, lo, hi, &steps) ||
        steps > 0.51)
        return r;
    for (int step = -1; step <= 1; step++) {
        double lost, b = below + step;
        if (b < 0 || b > all)
            continue;
        struct quant_range fits = range_of_steps(r, lo, hi, b, all - b, &lost);
        for (int i = 0; i < 8; i++) {
            if (range_ends_within(quant_form_of_range(fits, store), lo, hi, &steps))
                break;
            fits = (struct quant_range){nextafterf(fits.low, 0), nextafterf(fits.high, 0)};
        }
        if (lost >= least || !range_ends_within(quant_form_of_range(fits, store), lo, hi, &steps))
            continue;
        least = lost;
        best = fits;
    }
    return best;
}

int32_t quant_form_store(struct quant_form f, float x)
{
    return (int32_t)range_stored(f, (double)x / (double)f.scale);
}

// ---- bins ----

// The bins that are used: [first, last).
struct range_window {
    int32_t first, last;
};

static struct range_window range_used(const struct observer *o)
{
    struct range_window w = {0, OBSERVER_BINS};
    while (w.first < w.last && !o->bins[w.first])
        w.first++;
    while (w.last > w.first && !o->bins[w.last - 1])
        w.last--;
    return w;
}

// Every value of a bin is taken to lie in its middle; bins are 2^exponent wide.
static double range_middle(const struct observer *o, int32_t bin)
{
    return ldexp(bin - OBSERVER_SIDE + 0.5, o->exponent);
}

// The bins that are not empty, as a search over 32 x 32 ranges looks at them.
struct range_points {
    uint32_t n;
    double x[OBSERVER_BINS], count[OBSERVER_BINS];
};

static void range_points_of(const struct observer *o, struct range_points *p)
{
    struct range_window w = range_used(o);
    p->n = 0;
    for (int32_t i = w.first; i < w.last; i++) {
        if (!o->bins[i])
            continue;
        p->x[p->n] = range_middle(o, i);
        p->count[p->n++] = (double)o->bins[i];
    }
}

// Of a number far below 2^51: sums with 1.5 * 2^52 have no room for a fraction, and halves go to
// the even number. A call of rint() is several times as slow.
static double range_rint(double x)
{
    const double large = 6755399441055744.0;
    return x + large - large;
}

// The square error of all values. Given up once it is no better than `best`: most ranges are, after
// few bins.
static double range_error_in(const struct range_points *p, struct quant_form f, double best)
{
    double scale = (double)f.scale, most = range_most(f.bits), sum = 0;
    double low = -most - 1 - f.zp, high = most - f.zp;
    for (uint32_t i = 0; i < p->n && sum < best; i++) {
        double q = p->x[i] / scale;
        q = q < low ? low : q > high ? high : range_rint(q);
        double off = p->x[i] - q * scale;
        sum += off * off * p->count[i];
    }
    return sum;
}

double quant_range_error(const struct observer *o, struct quant_form f)
{
    struct range_points p;
    double n = 0; // fewer than values where not all samples have histograms
    range_points_of(o, &p);
    for (uint32_t i = 0; i < p.n; i++)
        n += p.count[i];
    return n > 0 ? range_error_in(&p, f, INFINITY) / n : 0;
}

struct quant_clipping quant_range_clipping(const struct observer *o, struct quant_range r,
                                           float scale)
{
    struct quant_clipping c = {0};
    double all = 0;
    for (int32_t i = 0; i < OBSERVER_BINS; i++) {
        double x = range_middle(o, i), n = (double)o->bins[i], half = (double)scale / 2;
        double off = x > (double)r.high + half  ? x - (double)r.high
                     : x < (double)r.low - half ? x - (double)r.low
                                                : 0;
        c.power += n * x * x;
        c.share += off != 0 ? n : 0;
        c.error += n * off * off;
        all += n;
    }
    double n = all > 0 ? all : 1;
    return (struct quant_clipping){c.power / n, c.share / n, c.error / n};
}

// ---- mmse ----

// All pairs of a shrunk lower and a shrunk upper end; of a symmetric range one factor for both, and
// of one that lies on one side of 0 that side alone. Ties go to the wider range: it is tried first.
static struct quant_range range_mmse(const struct observer *o, struct quant_range all,
                                     struct quant_store store)
{
    bool symmetric = store.symmetric;
    struct range_points points;
    struct quant_range best = all;
    double least = INFINITY;
    range_points_of(o, &points);
    int n_low = all.low < 0 && !symmetric ? FACTORS : 1, n_high = all.high > 0 ? FACTORS : 1;
    if (symmetric && all.high <= 0)
        n_high = FACTORS;
    for (int i = 0; i < n_low; i++)
        for (int k = 0; k < n_high; k++) {
            double low = range_factor(symmetric ? k : i);
            struct quant_range r = {(float)((double)all.low * low),
                                    (float)((double)all.high * range_factor(k))};
            double sum = range_error_in(&points, quant_form_of_range(r, store), least);
            if (sum < least) {
                least = sum;
                best = r;
            }
        }
    return best;
}

// ---- Kullback and Leibler ----

// The divergence of the bins of a window, outliers in its ends, from the same spread over LEVELS.
// Bins that are 0 in the one and not in the other count as a little (1e-4 of a count). Where all
// lies in one bin, as of values far from 0 in a window that ends before them, it says nothing.
static double range_divergence(const double *p, const double *plain, int32_t n, double *q)
{
    int32_t each = n / LEVELS, all_used = 0;
    double total_p = 0, total_q = 0, sum = 0;
    memset(q, 0, (size_t)n * sizeof *q);
    for (int32_t level = 0; level < LEVELS; level++) {
        int32_t from = level * each, to = level == LEVELS - 1 ? n : from + each, used = 0;
        double mass = 0;
        for (int32_t i = from; i < to; i++) {
            mass += plain[i];
            used += p[i] > 0;
        }
        all_used += used;
        for (int32_t i = from; i < to; i++)
            q[i] = p[i] > 0 ? fmax(mass / used, 1e-4) : 0;
    }
    for (int32_t i = 0; i < n; i++) {
        total_p += p[i];
        total_q += q[i];
    }
    for (int32_t i = 0; i < n; i++)
        if (p[i] > 0)
            sum += p[i] / total_p * log((p[i] / total_p) / (q[i] / total_q));
    return all_used > 1 ? sum : INFINITY;
}

// Counts of all bins. 0 is stored as it is, whatever the range, and half of what a Relu leaves is
// 0: so the bin that has it counts no more than the fuller one beside it. How many values there
// are.
static double range_counts(const struct observer *o, double *counts)
{
    double all = 0;
    for (int32_t i = 0; i < OBSERVER_BINS; i++)
        all += counts[i] = (double)o->bins[i];
    double *zero = counts + OBSERVER_SIDE;
    *zero = fmin(*zero, fmax(zero[-1], zero[1]));
    return all;
}

// Counts of the window, and the same with those outside in its ends.
static void range_fold_outliers(const double *counts, struct range_window used,
                                struct range_window w, double *p, double *plain)
{
    for (int32_t i = w.first; i < w.last; i++)
        p[i - w.first] = plain[i - w.first] = counts[i];
    for (int32_t i = used.first; i < w.first; i++)
        p[0] += counts[i];
    for (int32_t i = w.last; i < used.last; i++)
        p[w.last - w.first - 1] += counts[i];
}

// `half` bins on each side of 0, cut to the bins that are used; 0 stays at an edge or inside.
static struct range_window range_within(struct range_window used, int32_t half)
{
    struct range_window w = {OBSERVER_SIDE - half, OBSERVER_SIDE + half};
    if (w.first < used.first)
        w.first = used.first > OBSERVER_SIDE ? OBSERVER_SIDE : used.first;
    if (w.last > used.last)
        w.last = used.last < OBSERVER_SIDE ? OBSERVER_SIDE : used.last;
    return w;
}

// Wider and wider windows around 0, up to all bins; the one whose 256 levels tell most of what the
// bins tell. Those of fewer bins than levels say nothing and are passed over, and so do bins of
// fewer values than there are bins: each would be a peak.
static struct quant_range range_kl(const struct observer *o, struct quant_range all)
{
    double counts[OBSERVER_BINS], p[OBSERVER_BINS], plain[OBSERVER_BINS], q[OBSERVER_BINS];
    double least = INFINITY;
    struct range_window used = range_used(o);
    int32_t most = OBSERVER_SIDE - used.first > used.last - OBSERVER_SIDE
                       ? OBSERVER_SIDE - used.first
                       : used.last - OBSERVER_SIDE;
    struct quant_range best = all;
    if (range_counts(o, counts) < FEWEST)
        return all;
    for (int32_t half = FIRST_HALF; half - HALF_STEP < most; half += HALF_STEP) {
        bool whole = half >= most;
        struct range_window w = range_within(used, whole ? most : half);
        if (w.last - w.first < LEVELS)
            continue;
        range_fold_outliers(counts, used, w, p, plain);
        double d = range_divergence(p, plain, w.last - w.first, q);
        if (!(d < least))
            continue;
        least = d;
        double reach = ldexp(half, o->exponent);
        best = whole ? all
                     : (struct quant_range){fmaxf(all.low, (float)-reach),
                                            fminf(all.high, (float)reach)};
    }
    return best;
}

struct quant_range quant_range_choose(const struct observer *o, enum quant_algorithm a,
                                      struct quant_store store)
{
    struct quant_range all = {0, 0};
    if (o->min <= o->max)
        all = (struct quant_range){fminf(o->min, 0), fmaxf(o->max, 0)};
    if (store.bits > 8)
        return all;
    if (a == QUANT_ALGORITHM_MMSE && all.low < all.high)
        return range_mmse(o, all, store);
    return a == QUANT_ALGORITHM_KL && all.low < all.high ? range_kl(o, all) : all;
}

double quant_range_usual(const struct observer *o)
{
    double all = 0, within = 0;
    for (int32_t i = 0; i < OBSERVER_BINS; i++)
        all += (double)o->bins[i];
    for (int32_t d = 0; d < OBSERVER_SIDE; d++) {
        within += (double)o->bins[OBSERVER_SIDE + d] + (double)o->bins[OBSERVER_SIDE - 1 - d];
        if (within >= 0.9 * all)
            return all > 0 ? range_middle(o, OBSERVER_SIDE + d) : 0;
    }
    return 0;
}

// ---- weights ----

// The square error of weights. Given up, after some of them, once it is no better than `best`. Four
// sums, which do not wait for each other; without branches, so that compilers make vectors of it.
static double weight_error(const float *w, size_t n, double scale, double most, double best)
{
    double sums[4] = {0};
    for (size_t at = 0; at < n; at += SOME) {
        size_t end = n - at < SOME ? n : at + SOME;
        for (size_t i = at; i < end; i++) {
            double q = (double)w[i] / scale;
            q = range_rint(q < -most ? -most : q > most ? most : q);
            double off = (double)w[i] - q * scale;
            sums[i % 4] += off * off;
        }
        if (sums[0] + sums[1] + sums[2] + sums[3] >= best)
            break;
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

// Weights are symmetric and stored in -127..127, so that products of two extremes have no odd one
// out. `search`: the factor with the least square error, else the largest weight is the end.
float quant_weight_scale(const float *w, size_t n, struct quant_store store, bool search)
{
    float largest = 0, best = 0;
    double least = INFINITY, most = range_most(store.bits);
    search &= store.bits == 8;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(w[i]) > largest ? fabsf(w[i]) : largest;
    for (int k = 0; k < (search ? FACTORS : 1) && largest > 0; k++) {
        float scale = range_scale((double)largest * range_factor(k) / most, store);
        double sum = weight_error(w, n, (double)scale, most, least);
        if (sum < least) {
            least = sum;
            best = scale;
        }
    }
    return best;
}
