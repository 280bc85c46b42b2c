// Which part of what was seen is stored.
#pragma once

#include "quant/calibrate/quant_range.h"

enum quant_algorithm { QUANT_ALGORITHM_NORMAL, QUANT_ALGORITHM_KL, QUANT_ALGORITHM_MMSE };

/// The range to be stored, within what was seen. 0 is always in it. 16 bits have levels enough for
/// all that was seen: the range is that of `normal` then.
/// - normal: the least and largest value.
/// - mmse: quant_mmse.h
/// - kl_divergence: quant_kl.h
struct quant_range quant_range_choose(const struct observer *o, enum quant_algorithm a,
                                      struct quant_store store);
