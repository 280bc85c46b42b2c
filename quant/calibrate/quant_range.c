// How a range is stored, and what of a histogram is cut off by it: by the bins' middles, in
// doubles.
#include "quant/calibrate/quant_range.h"

#include <math.h>

double quant_form_most(uint8_t bits)
{
    return (double)((1 << (bits - 1)) - 1);
}

float quant_scale_of(double span, struct quant_store store)
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
    double most = quant_form_most(store.bits), span = ((double)high - low) / (2 * most + 1);
    if (store.symmetric)
        span = fmax(-(double)low, high) / most;
    struct quant_form f = {.scale = quant_scale_of(span, store), .zp = 0, .bits = store.bits};
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
    double most = quant_form_most(f.bits);
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
    double all = 2 * quant_form_most(f.bits) + 1, below = f.zp + quant_form_most(f.bits) + 1, steps;
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

// ---- histograms ----

// Every value of a bin is taken to lie in its middle; bins are 2^exponent wide.
static double range_middle(const struct observer *o, int32_t bin)
{
    return ldexp(bin - OBSERVER_SIDE + 0.5, o->exponent);
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
