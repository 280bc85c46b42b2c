// Numbers as people write them in options.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// All of `text` as a decimal number from min to max; with `suffix`, K, M or G may follow. False:
/// it is none.
bool size_parse(const char *text, bool suffix, uint64_t min, uint64_t max, uint64_t *ret);
