// Windows are many and overlap, so counts, filled bins and terms of entropy are added up once, from
// the first bin on: what lies between two bins is a difference of such sums. A window then takes a
// logarithm for each of its levels:
//
//     Σ p/P log((p/P) / (q/Q)) = (Σ p log p - Σ p log q) / P - log P + log Q
//
// where q is one number for all bins of a level, and P and Q are the sums of all p and q.
#include "quant/calibrate/quant_kl.h"

#include <math.h>

#define LEVELS     256           // of 8 bits
#define FIRST_HALF 128           // bins of the narrowest window, on each side of 0,
#define HALF_STEP  16            // and how much wider the next one is
#define FEWEST     OBSERVER_BINS // values of which a histogram says what to cut off
#define LEAST      1e-4          // of a bin's share, where something is

// Bins [first, last).
struct kl_window {
    int32_t first, last;
};

struct kl_sums {
    double counts[OBSERVER_BINS];
    double before[OBSERVER_BINS + 1];  // counts of all bins before this one,
    double terms[OBSERVER_BINS + 1];   // their p log p,
    int32_t filled[OBSERVER_BINS + 1]; // and how many of these bins are not empty
    struct kl_window used;
};

static double kl_term(double p)
{
    return p > 0 ? p * log(p) : 0;
}

static struct kl_window kl_used(const struct observer *o)
{
    struct kl_window w = {0, OBSERVER_BINS};
    while (w.first < w.last && !o->bins[w.first])
        w.first++;
    while (w.last > w.first && !o->bins[w.last - 1])
        w.last--;
    return w;
}

// 0 is stored as it is, whatever the range, and half of what a Relu leaves is 0: so the bin that
// has it counts no more than the fuller one beside it. How many values there are.
static double kl_counts(const struct observer *o, struct kl_sums *s)
{
    double all = 0;
    for (int32_t i = 0; i < OBSERVER_BINS; i++)
        all += s->counts[i] = (double)o->bins[i];
    double *zero = s->counts + OBSERVER_SIDE;
    *zero = fmin(*zero, fmax(zero[-1], zero[1]));
    return all;
}

static void kl_add_up(struct kl_sums *s)
{
    s->before[0] = s->terms[0] = 0;
    s->filled[0] = 0;
    for (int32_t i = 0; i < OBSERVER_BINS; i++) {
        s->before[i + 1] = s->before[i] + s->counts[i];
        s->terms[i + 1] = s->terms[i] + kl_term(s->counts[i]);
        s->filled[i + 1] = s->filled[i] + (s->counts[i] > 0);
    }
}

// The divergence of the bins of a window, with what lies outside in its ends, from the same spread
// over LEVELS, which share the counts of theirs (without those outside) among the bins that are not
// empty. Where all lies in one bin, as of values far from 0 in a window that ends before them, it
// says nothing.
static double kl_divergence(const struct kl_sums *s, struct kl_window w)
{
    int32_t each = (w.last - w.first) / LEVELS, all_filled = 0;
    double left = s->before[w.first] - s->before[s->used.first];
    double right = s->before[s->used.last] - s->before[w.last];
    double first = s->counts[w.first], last = s->counts[w.last - 1];
    double terms = s->terms[w.last - 1] - s->terms[w.first + 1] + kl_term(first + left) +
                   kl_term(last + right);
    double total_p = s->before[s->used.last] - s->before[s->used.first], total_q = 0, sum = 0;
    for (int32_t level = 0; level < LEVELS; level++) {
        bool at_first = level == 0, at_last = level == LEVELS - 1;
        int32_t from = w.first + level * each, to = at_last ? w.last : from + each;
        double mass = s->before[to] - s->before[from];
        int32_t filled = s->filled[to] - s->filled[from];
        filled += at_first && left > 0 && first == 0;
        filled += at_last && right > 0 && last == 0;
        if (!filled)
            continue;
        double q = fmax(mass / filled, LEAST);
        all_filled += filled;
        total_q += filled * q;
        sum += (mass + (at_first ? left : 0) + (at_last ? right : 0)) * log(q);
    }
    return all_filled > 1 ? (terms - sum) / total_p - log(total_p) + log(total_q) : INFINITY;
}

// `half` bins on each side of 0, cut to the bins that are used; 0 stays at an edge or inside.
static struct kl_window kl_within(struct kl_window used, int32_t half)
{
    struct kl_window w = {OBSERVER_SIDE - half, OBSERVER_SIDE + half};
    if (w.first < used.first)
        w.first = used.first > OBSERVER_SIDE ? OBSERVER_SIDE : used.first;
    if (w.last > used.last)
        w.last = used.last < OBSERVER_SIDE ? OBSERVER_SIDE : used.last;
    return w;
}

// Windows of fewer bins than levels say nothing and are passed over, and so do bins of fewer values
// than there are bins: each would be a peak.
struct quant_range quant_kl_range(const struct observer *o, struct quant_range all)
{
    struct kl_sums s = {.used = kl_used(o)};
    double least = INFINITY;
    int32_t below = OBSERVER_SIDE - s.used.first, above = s.used.last - OBSERVER_SIDE;
    int32_t most = below > above ? below : above;
    struct quant_range best = all;
    if (kl_counts(o, &s) < FEWEST)
        return all;
    kl_add_up(&s);
    for (int32_t half = FIRST_HALF; half - HALF_STEP < most; half += HALF_STEP) {
        bool whole = half >= most;
        struct kl_window w = kl_within(s.used, whole ? most : half);
        if (w.last - w.first < LEVELS)
            continue;
        double d = kl_divergence(&s, w);
        if (!(d < least - QUANT_KL_TIE))
            continue;
        least = d;
        double reach = ldexp(half, o->exponent);
        best = whole ? all
                     : (struct quant_range){fmaxf(all.low, (float)-reach),
                                            fminf(all.high, (float)reach)};
    }
    return best;
}
