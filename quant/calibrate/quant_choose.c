#include "quant/calibrate/quant_choose.h"

#include <math.h>

#include "quant/calibrate/quant_kl.h"
#include "quant/calibrate/quant_mmse.h"

struct quant_range quant_range_choose(const struct observer *o, enum quant_algorithm a,
                                      struct quant_store store)
{
    struct quant_range all = {0, 0};
    if (o->min <= o->max)
        all = (struct quant_range){fminf(o->min, 0), fmaxf(o->max, 0)};
    if (store.bits > 8)
        return all;
    if (a == QUANT_ALGORITHM_MMSE && all.low < all.high)
        return quant_mmse_range(o, all, store);
    return a == QUANT_ALGORITHM_KL && all.low < all.high ? quant_kl_range(o, all) : all;
}
