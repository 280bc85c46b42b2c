// Numbers as people write them in options.
#pragma once

#include <stdint.h>

#include "base/error.h"

// Each takes the whole text, decimal digits without sign or spaces, as a number from min to max;
// otherwise STATUS_PARAM_INVALID with words that say so, and *ret is left alone.
int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct error *e);

/// K, M or G may follow: powers of 1024.
int number_parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                       struct error *e);

/// A fraction may follow, behind a point: 1.5.
int number_parse_real(const char *text, uint64_t min, uint64_t max, double *ret, struct error *e);
