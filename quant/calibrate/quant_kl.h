// The range whose distribution stays nearest, by Kullback and Leibler's divergence.
//
// The bins within t bins of 0 are tried, t = 128, 144, … or all. A range takes the place of a
// narrower one only if its divergence is less by more than 1e-9: ranges that differ by less (by
// empty bins, or by how a program adds up) are equal, and the narrowest of them counts.
#pragma once

#include "quant/calibrate/quant_range.h"

#define QUANT_KL_TIE 1e-9 // nats

/// Within `all`, which has 0 in it and is not empty.
struct quant_range quant_kl_range(const struct observer *o, struct quant_range all);
