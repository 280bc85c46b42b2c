// Offsets of tensors in the internal memory, and how much of that is SRAM.
//
// SRAM is the beginning of the arena, main memory the rest (SDK guide 5.7.3.4).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SRAM_UNPLACED UINT64_MAX

struct sram_tensor {
    uint64_t size;
    uint64_t offset;  // in the arena; SRAM_UNPLACED: for sram_plan to find
    int32_t from, to; // steps: the one that writes it, the last one that reads it
    uint32_t uses;    // times it is written or read
    bool outside;     // has memory of its own when it runs: an input or output of the model
};

struct sram_use {
    uint64_t internal_size;  // of the arena
    uint64_t internal_bytes; // read and written in a run, inputs and outputs included
    uint64_t sram_bytes;     // those of them that SRAM takes
};

/// Places the tensors that have no place, in the order of the array, which is that of their
/// `from`: each at the lowest place that no tensor in use has. This is how the chain of 5.7.3.4 is
/// laid out; the vendor's compiler orders tensors of branched networks by rules of its own, so take
/// a file's places where it has them.
int sram_plan(struct sram_tensor *tensors, size_t n, struct error *e);

/// Bytes of a tensor in the first sram_size bytes of the arena: the column SramHit.
uint64_t sram_hit(const struct sram_tensor *t, uint64_t sram_size);

/// Of placed tensors.
void sram_count(const struct sram_tensor *tensors, size_t n, uint64_t sram_size,
                struct sram_use *ret);
