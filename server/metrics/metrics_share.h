// One text of metrics for all who ask at about the same time.
#pragma once

#include "server/metrics/metrics_text.h"
#include "server/net/snapshots.h"
#include "server/observe/readings.h"

struct services;

// Embedded by the server. Loop thread only.
struct metrics_share {
    const struct services *services;
    struct snapshots all;
    struct reading_waiter reading;
    const struct reading *sensors; // while a text is begun; NULL: they do not answer
    struct metrics_text text;      // while it is being made
};

void metrics_share_init(struct metrics_share *m, const struct services *services);

/// Safe to repeat. Askers are told nothing more.
void metrics_share_close(struct metrics_share *m);
