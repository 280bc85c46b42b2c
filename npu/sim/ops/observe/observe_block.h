// Bounds of a tensor's blocks, from which tails are found without another look at all values.
#pragma once

#include "tensor/observe/observer.h"

#define OBSERVE_PARTS 16

// Of some values: bounds of several parts of them, whichever these are. A part without positive
// values may have any negative number as its largest one, one without negative values any positive
// one as its least: no tail asks for these.
struct observe_bounds {
    float min[OBSERVE_PARTS], max[OBSERVE_PARTS];
};

// Values up to `end`, from where the block before ends.
struct observe_block {
    uint64_t end;
    struct observe_bounds bounds;
};

static inline void observe_bounds_begin(struct observe_bounds *b)
{
    for (uint32_t i = 0; i < OBSERVE_PARTS; i++) {
        b->min[i] = __builtin_inff();
        b->max[i] = -__builtin_inff();
    }
}

/// Of n blocks: how many parts reach below `low` or above `high`, counted until there are more than
/// `most`.
uint32_t observe_blocks_beyond(const struct observe_block *b, uint64_t n, float low, float high,
                               uint32_t most);

/// The first one, from `at` on, with a part that reaches below `low` or above `high`; n: there is
/// none.
uint64_t observe_blocks_next(const struct observe_block *b, uint64_t at, uint64_t n, float low,
                             float high);

/// Widens `all` by the bounds of n blocks.
void observe_blocks_join(const struct observe_block *b, uint64_t n, struct observer_bounds *all);
