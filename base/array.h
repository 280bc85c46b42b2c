// Arrays that grow.
//
// The owner of one has the items, how many there are, and for how many there is room, in variables
// of its own, the two numbers of any unsigned type:
//
//     struct call *calls; // malloc'ed
//     uint32_t n, room;
//
//     int r = array_reserve(c->calls, c->room, c->n + 1, "calls", e);
//     if (r < 0)
//         return r;
//     c->calls[c->n++] = call;
//
// All zero is an empty array; free() of the items frees it.
#pragma once

#include "base/error.h"

/// Makes room for `need` items, which may move them. On failure STATUS_MALLOC_FAIL, and nothing has
/// changed. `what` names the items in the error. New items are not initialised.
#define array_reserve(items, room, need, what, e)                                                  \
    ({                                                                                             \
        void *items_ = (items);                                                                    \
        size_t room_ = (room);                                                                     \
        const size_t max_ = (size_t)(__typeof__(room))-1;                                          \
        int r_ = array_grow(&items_, &room_, (need), max_, sizeof *(items), what, e);              \
        (items) = items_;                                                                          \
        (room) = (__typeof__(room))room_;                                                          \
        r_;                                                                                        \
    })

/// For how many there is to be room: at least `need`, else twice as many as before, so that
/// appending n items copies less than 2n; never more than `max`. 0: `need` is more than that, or
/// more than there can be bytes.
size_t array_next_room(size_t room, size_t need, size_t max, size_t item_size);

/// What array_reserve() calls.
int array_grow(void **items, size_t *room, size_t need, size_t max, size_t item_size,
               const char *what, struct error *e);
