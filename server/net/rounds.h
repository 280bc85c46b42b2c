// Whose turn it is: what connections and others have to do is done in rounds, in which each line (a
// user's, for example) has one of its own done, in the order in which they came. So who has a
// thousand connections keeps another's only one waiting no longer than who has one; and what there
// is beyond some milliseconds waits for the loop's next turn. Loop thread only.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

#define ROUNDS_CROWD 256 // who waits beyond that

struct rounds {
    uv_check_t check;  // after polling, when it is known who wants a turn
    uv_idle_t more;    // keeps the loop from sleeping
    struct list lines; // that have somebody waiting, the next one first
    unsigned n_waiting;
    uint64_t most_ns; // of work in one turn of the loop, and what the last that has begun takes
};

// Those that take turns with each other. Embedded by its owner, who outlives whoever waits in it.
struct rounds_line {
    struct list link; // in rounds.lines
    struct list waiting;
};

// One that wants turns. Embedded.
struct rounds_place {
    struct list link;                         // in rounds_line.waiting
    struct rounds *waits_in;                  // NULL: it does not
    void (*turn)(struct rounds_place *place); // may wait again, and may free it
};

/// most_ms: after which no more turns are given in this turn of the loop; 0: there is one.
void rounds_init(struct rounds *r, uv_loop_t *loop, unsigned most_ms);

/// When nobody waits any more.
void rounds_close(struct rounds *r);

void rounds_line_init(struct rounds_line *line);

/// Nobody waits in it.
void rounds_line_done(struct rounds_line *line);

/// turn() is to come; not from inside. One that waits already keeps its place.
void rounds_place_init(struct rounds_place *place, void (*turn)(struct rounds_place *place));
void rounds_wait(struct rounds *r, struct rounds_line *line, struct rounds_place *place);

bool rounds_waits(const struct rounds_place *place);

/// Whether there are so many that who is one more should not have itself called again before its
/// turn: libuv polls up to 48 times in a turn of the loop as long as 1024 descriptors are ready
/// each time, and those who wait in line stay ready.
bool rounds_are_crowded(const struct rounds *r);

/// It does not wait any more.
void rounds_leave(struct rounds_place *place);
