// Handles: the numbers by which programs name their contexts.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rknn_api.h"

// Embedded in what the handle names. A number is never used twice (on machines whose rknn_context
// has 64 bits), so a program that uses a context after its end is told so instead of meeting
// another one. Any thread, any time.
struct handle {
    rknn_context number;
    unsigned refs; // one of the table while the handle is alive, one of each handle_take()
    void (*end)(struct handle *h); // the last reference has gone: closes and frees the object
};

/// Enters *h (refs: 1) and gives it a number.
int handle_add(struct handle *h, struct error *e);

/// The object of a number, with a reference; NULL if there is none (any more).
struct handle *handle_take(rknn_context number);

/// Some number for whose object matches(h, with), of which there may be many; 0: there is none.
rknn_context handle_find(bool (*matches)(const struct handle *h, const void *with),
                         const void *with);

/// Ends a number and hands the table's reference to the caller; NULL as above.
struct handle *handle_remove(rknn_context number);

/// Gives a reference back; the last one ends the object. No lock is held.
void handle_put(struct handle *h);

/// Around fork(): the table is whole in the child.
void handle_before_fork(void);
void handle_after_fork(bool child);
