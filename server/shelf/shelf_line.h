// Whose work waits for the model store's disk: each user's in a line of its own, which take turns.
#pragma once

#include "base/list.h"

// Embedded by a user, and by the shelf for the server itself.
struct shelf_line {
    struct list link;    // in shelf.lines, while somebody waits
    struct list waiting; // shelf_work
};

static inline void shelf_line_init(struct shelf_line *l)
{
    list_init(&l->link);
    list_init(&l->waiting);
}
