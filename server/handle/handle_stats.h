// STATS: one list of clients for all who ask at about the same time (handle_stats.c).
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

struct services;
struct stats_snapshot;

// Embedded by the server.
struct stats {
    const struct services *services; // what the snapshots are of
    struct list waiting;             // who will be answered by the next snapshot
    struct list served;              // by this one
    struct stats_snapshot *snapshot; // NULL: nobody is being answered
    bool filled;                     // it is whole: answers go out
    uint64_t took_us;                // of the processor, to make it, so far
    uint64_t next_us;                // uv_hrtime(): not before then the next one is made
    uv_timer_t timer;
};

void stats_init(struct stats *st, const struct services *services);

/// After the last connection has closed.
void stats_close(struct stats *st);
