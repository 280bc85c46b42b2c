// The device's SRAM: who has how much of it.
#pragma once

#include <stdint.h>

// The chip gives it out in units of 4 KB (SDK guide 5.7).
struct sram {
    uint64_t total, used;
};

/// Takes as much of `size` bytes as there is; returns how much that is.
uint64_t sram_take(struct sram *s, uint64_t size);
void sram_give(struct sram *s, uint64_t taken);
