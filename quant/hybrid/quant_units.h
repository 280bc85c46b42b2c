// What becomes float, or int16, together: a product or a node that computes integers, and the
// activation behind it, which has nothing to win from integers once its input has none.
#pragma once

#include "quant/quant.h"

struct quant_unit {
    uint32_t nodes[2];
    uint32_t n;
    bool is_product;
    double noise; // of all of its nodes, by the calibration (quant_noise.h)
    double cost;  // 1 less the outputs' cosine with this unit alone in integers, as measured
};

/// The units of q->plan, in the order of its nodes. q->noise is there. *ret is malloc'ed.
int quant_units_make(const struct rknnd_quant *q, struct quant_unit **ret, uint32_t *ret_n,
                     struct error *e);

/// Puts what costs most first; of equal ones the noisiest, then the earlier node. The last one is
/// the product that costs least, wherever others stand: a model without any is not quantized.
void quant_units_sort(struct quant_unit *units, uint32_t n);
