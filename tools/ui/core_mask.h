// The cores that a run may use, from an option.
#pragma once

#include "base/error.h"

/// Cores of a run as an rknn_core_mask, an option_call (base/options/option_table.h) into a
/// uint32_t: "auto", "all", core numbers ("0", "0,1", "0_1_2") or a bit mask in hexadecimal
/// ("0x3").
int core_mask_option(void *mask, const char *text, struct error *e);
