// Arrays that grow.
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"

#define FIRST_ROOM 16

// Doubles, so that n appends cost O(n) copies, within `max` and what a size_t can address. 0:
// `need` is beyond that.
size_t array_next_room(size_t room, size_t need, size_t max, size_t item_size)
{
    max = size_min(max, PTRDIFF_MAX / item_size);
    if (need > max)
        return 0;
    size_t twice = room > max / 2 ? max : room ? 2 * room : size_min(FIRST_ROOM, max);
    return twice < need ? need : twice;
}

// The array is unchanged on failure. `what` names it in the error. New elements are not zeroed.
int array_grow(void **items, size_t *room, size_t need, size_t max, size_t item_size,
               const char *what, struct error *e)
{
    if (need <= *room)
        return 0;
    size_t next = array_next_room(*room, need, max, item_size);
    void *fresh = next ? realloc(*items, next * item_size) : NULL;
    if (!fresh)
        return error_no_memory(e, what, next * item_size);
    *items = fresh;
    *room = next;
    return 0;
}
