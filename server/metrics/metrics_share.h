// One text of metrics for all who have asked before it was begun. It is made and handed out in
// slices, one in each turn of the loop, and a part of the loop's time at most goes into them,
// however often they are asked for.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "server/metrics/metrics_text.h"
#include "server/observe/readings.h"

struct services;

// A whole one, which stays until it has gone to everybody.
struct metrics_copy {
    unsigned refs;
    char *text;
    size_t size;
};

// Who has asked. Embedded.
struct metrics_asker {
    struct list link;
    /// `copy` NULL: there is none, for this reason. It is valid in the call, and longer for who has
    /// a reference. May free the asker, and may ask again.
    void (*told)(struct metrics_asker *a, struct metrics_copy *copy, const struct error *e);
};

// Embedded by the server. Loop thread only.
struct metrics_share {
    const struct services *services;
    struct list waiting; // for the next text
    struct list served;  // by this one
    struct reading_waiter reading;
    struct metrics_text text;  // while it is being made
    struct metrics_copy *copy; // once it is made
    bool asked, making;        // for sensors' readings; `text` is open
    uint64_t took_us;          // of the processor, to make it, so far
    uint64_t next_us;          // uv_hrtime(): not before then is the next one begun
    uv_timer_t timer;
};

void metrics_share_init(struct metrics_share *m, const struct services *services);

/// Safe to repeat. Askers are told nothing more.
void metrics_share_close(struct metrics_share *m);

/// Calls a->told(), never from inside. list_remove() of the link takes the request back.
void metrics_share_get(struct metrics_share *m, struct metrics_asker *a);

struct metrics_copy *metrics_copy_ref(struct metrics_copy *copy);

/// `owner`: a struct metrics_copy, or NULL. The release() of a frame, too.
void metrics_copy_unref(void *owner);
