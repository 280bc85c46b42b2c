// A search looks at 32 x 32 ranges of up to 4096 bins: so errors are added up in blocks, which
// compilers make vectors of, the values farthest from 0 first. What a narrow range cuts off tells
// soon that it is worse than one before it.
#include "quant/calibrate/quant_mmse.h"

#include <math.h>

#include "base/each_cpu.h"

#define FACTORS 32 // 1, .975, … .225
#define SOME    64 // values after which a search looks whether it can be given up
#define LANES   8  // sums that do not wait for each other

static double mmse_factor(int i)
{
    return 1 - 0.025 * i;
}

// Of numbers far below 2^51: sums with 1.5 * 2^52 have no room for a fraction, and halves go to
// the even number. A call of rint() is several times as slow.
static inline double mmse_rint(double x)
{
    const double large = 6755399441055744.0;
    return x + large - large;
}

// Values in units that a scale is 1 of, and how they are stored.
struct mmse_levels {
    double scale, inverse, low, high;
};

// The square of what storing a value does. A quotient that a division would round to the other
// side of a half makes no difference: both levels are as far from it.
static inline double mmse_off(double x, const struct mmse_levels *l)
{
    double q = x * l->inverse;
    q = q < l->low ? l->low : q;
    q = mmse_rint(q > l->high ? l->high : q);
    double off = x - q * l->scale;
    return off * off;
}

// ---- tensors ----

// Bins' middles that have a count, the farthest from 0 first; then counts of 0 up to whole blocks.
struct mmse_points {
    uint32_t n;
    double x[OBSERVER_BINS], count[OBSERVER_BINS];
};

static void mmse_put(struct mmse_points *p, const struct observer *o, int32_t bin)
{
    if (!o->bins[bin])
        return;
    p->x[p->n] = ldexp(bin - OBSERVER_SIDE + 0.5, o->exponent);
    p->count[p->n++] = (double)o->bins[bin];
}

static void mmse_points_of(const struct observer *o, struct mmse_points *p)
{
    p->n = 0;
    for (int32_t i = 0; i < OBSERVER_SIDE; i++) {
        mmse_put(p, o, i);
        mmse_put(p, o, OBSERVER_BINS - 1 - i);
    }
    for (; p->n % SOME; p->n++)
        p->x[p->n] = p->count[p->n] = 0;
}

// Given up once it is `most` or more.
FOR_EACH_CPU static double mmse_error(const struct mmse_points *p, struct mmse_levels levels,
                                      double most)
{
    double total = 0;
    for (uint32_t at = 0; at < p->n && total < most; at += SOME) {
        double sums[LANES] = {0};
        for (uint32_t i = at; i < at + SOME; i += LANES)
            for (uint32_t k = 0; k < LANES; k++)
                sums[k] += mmse_off(p->x[i + k], &levels) * p->count[i + k];
        for (uint32_t k = 0; k < LANES; k++)
            total += sums[k];
    }
    return total;
}

static double mmse_error_of(const struct mmse_points *p, struct quant_form f, double most)
{
    double scale = (double)f.scale, least = -quant_form_most(f.bits) - 1;
    const struct mmse_levels levels = {scale, 1 / scale, least - f.zp,
                                       quant_form_most(f.bits) - f.zp};
    return mmse_error(p, levels, most);
}

double quant_range_error(const struct observer *o, struct quant_form f)
{
    struct mmse_points p;
    double n = 0; // fewer than values where not all samples have histograms
    mmse_points_of(o, &p);
    for (uint32_t i = 0; i < p.n; i++)
        n += p.count[i];
    return n > 0 ? mmse_error_of(&p, f, INFINITY) / n : 0;
}

// Of a symmetric range there is one factor for both ends, and of one that lies on one side of 0
// that side's alone.
struct quant_range quant_mmse_range(const struct observer *o, struct quant_range all,
                                    struct quant_store store)
{
    bool symmetric = store.symmetric;
    struct mmse_points points;
    struct quant_range best = all;
    double least = INFINITY;
    mmse_points_of(o, &points);
    int n_low = all.low < 0 && !symmetric ? FACTORS : 1, n_high = all.high > 0 ? FACTORS : 1;
    if (symmetric && all.high <= 0)
        n_high = FACTORS;
    for (int i = 0; i < n_low; i++)
        for (int k = 0; k < n_high; k++) {
            double low = mmse_factor(symmetric ? k : i), most = least * (1 - QUANT_MMSE_TIE);
            struct quant_range r = {(float)((double)all.low * low),
                                    (float)((double)all.high * mmse_factor(k))};
            double sum = mmse_error_of(&points, quant_form_of_range(r, store), most);
            if (sum < most) {
                least = sum;
                best = r;
            }
        }
    return best;
}

// ---- weights ----

// Given up once it is `most` or more.
FOR_EACH_CPU static double mmse_weight_error(const float *w, size_t n, struct mmse_levels levels,
                                             double most)
{
    double total = 0;
    for (size_t at = 0; at < n && total < most; at += SOME) {
        size_t end = n - at < SOME ? n : at + SOME, i = at;
        double sums[LANES] = {0};
        for (; i + LANES <= end; i += LANES)
            for (size_t k = 0; k < LANES; k++)
                sums[k] += mmse_off((double)w[i + k], &levels);
        for (; i < end; i++)
            total += mmse_off((double)w[i], &levels);
        for (size_t k = 0; k < LANES; k++)
            total += sums[k];
    }
    return total;
}

// Weights are symmetric and stored in -127..127, so that products of two extremes have no odd one
// out.
float quant_weight_scale(const float *w, size_t n, struct quant_store store, bool search)
{
    float largest = 0, best = 0;
    double least = INFINITY, most = quant_form_most(store.bits);
    search &= store.bits == 8;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(w[i]) > largest ? fabsf(w[i]) : largest;
    for (int k = 0; k < (search ? FACTORS : 1) && largest > 0; k++) {
        float scale = quant_scale_of((double)largest * mmse_factor(k) / most, store);
        const struct mmse_levels levels = {(double)scale, 1 / (double)scale, -most, most};
        double limit = least * (1 - QUANT_MMSE_TIE);
        double sum = search ? mmse_weight_error(w, n, levels, limit) : 0;
        if (sum < limit) {
            least = sum;
            best = scale;
        }
    }
    return best;
}
