// Bounds of a tensor's parts, from which tails are found without another look at all values.
#pragma once

#include "tensor/observe/observer.h"

#define OBSERVE_LANE 16
#define OBSERVE_MARK 256 // values of a part, or somewhat fewer, or, in long rows, more

// Of some values, as vectors leave them: bounds of lanes, whichever values these have. Without
// positive values the largest one may be any negative number, without negative ones the least any
// positive one: no tail asks for these.
struct observe_bounds {
    float min[OBSERVE_LANE], max[OBSERVE_LANE];
};

void observe_bounds_begin(struct observe_bounds *b);
void observe_bounds_join(struct observe_bounds *b, const struct observe_bounds *more);

/// Widens `all`.
void observe_bounds_take(const struct observe_bounds *b, struct observer_bounds *all);

// Each part's values begin where the part before ends. Its bounds are such numbers, too.
struct observe_marks {
    uint64_t n;
    uint32_t *end;
    float *least, *most;
};

/// Bytes for a tensor of n values, below 2^32.
uint64_t observe_marks_room(uint64_t n);
struct observe_marks observe_marks_in(void *room, uint64_t n);

/// The next values are a part, or belong to the last one as long as that is short.
void observe_marks_add_bounds(struct observe_marks *m, uint64_t from, uint64_t end,
                              const struct observe_bounds *b);

/// How many parts reach below `low` or above `high`, counted until there are more than `most`.
uint32_t observe_marks_beyond(const struct observe_marks *m, float low, float high, uint32_t most);

/// The first one from `at` on that does; m->n: there is none.
uint64_t observe_marks_next(const struct observe_marks *m, uint64_t at, float low, float high);

/// Widens `all` by the bounds of all parts.
void observe_marks_join(const struct observe_marks *m, struct observer_bounds *all);
