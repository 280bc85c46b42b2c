// What 8 bits do to a node's tensors and weights, from the calibration alone.
#pragma once

#include "quant/quant.h"

/// Fills q->noise, in the unit of rknnd_quant_node, once.
int quant_noise_measure(struct rknnd_quant *q, struct error *e);

static inline double quant_noise_total(struct quant_noise_parts p)
{
    return p.weight + p.input + p.output;
}
