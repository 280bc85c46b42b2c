// A thread that reads a context's connection and serves what comes in parts, while runs are under
// way that no thread of the program waits for.
#pragma once

#include "client/api/context.h"

struct background_reader;

int background_reader_new(struct context *c, struct background_reader **ret, struct error *e);

/// A run has begun.
void background_reader_wake(struct background_reader *a);

/// In the thread itself: true, and it will call finish(context), which may free the reader, when it
/// comes back from the callback that it is in. In others, and for NULL: false.
bool background_reader_inherit(struct background_reader *a, void (*finish)(struct context *c));

/// Ends the thread and waits for its end; in that thread itself, it ends when this returns to it.
/// The context's lock is not held. NULL is fine.
void background_reader_free(struct background_reader *a);
