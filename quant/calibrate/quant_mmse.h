// The ranges with the least square error, by trying many (SDK guide 3.1.7: brute force).
//
// The ends of all that was seen times 1, .975, … .225, from the widest range on: the lower end's
// factors one after the other, with each of them the upper end's. A range takes the place of an
// earlier one only if its error is less by more than a billionth of that one's: ranges that differ
// by less are equal, however a program adds up, and the first of them counts.
#pragma once

#include "quant/calibrate/quant_range.h"

#define QUANT_MMSE_TIE 1e-9 // of an error

/// Within `all`, which has 0 in it and is not empty; of 8 bits.
struct quant_range quant_mmse_range(const struct observer *o, struct quant_range all,
                                    struct quant_store store);

/// Mean square of what storing does to the bins' middles.
double quant_range_error(const struct observer *o, struct quant_form f);

/// The scale of weights, which are stored symmetrically whatever `store` says: largest / 127 (of 16
/// bits 32767) or, by search, that times the factor of 1, .975, … .225 with which the square error
/// is least. 0: they are all 0.
float quant_weight_scale(const float *w, size_t n, struct quant_store store, bool search);
