// Values of options, from text.
#pragma once

#include <stdint.h>

#include "rknn_api.h"
#include "tools/ui/failure.h"

/// A decimal number in [min, max]. `what` ("--loop") starts the words of a refusal.
int parse_number(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret,
                 struct failure *f);

/// A decimal number in [min, max], also with a fraction: 1.5.
int parse_real(const char *what, const char *text, uint32_t min, uint32_t max, double *ret,
               struct failure *f);

/// Cores of a run as an rknn_core_mask: "auto", "all", core numbers ("0", "0,1", "0_1_2") or a bit
/// mask in hexadecimal ("0x3").
int parse_core_mask(const char *text, uint32_t *ret, struct failure *f);
