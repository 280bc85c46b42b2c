// STATS: one list of clients for all who ask at about the same time (handle_stats.c).
#pragma once

#include "server/net/delimited.h"
#include "server/net/snapshots.h"

struct services;
struct session;

struct stats_list {
    rknnd_StatsReply m;
    struct delimited lines;
};

// Embedded by the server.
struct stats {
    const struct services *services; // what the lists are of
    struct snapshots all;
    struct stats_list list; // that is made, or handed out
    struct session *next;   // the client that comes next (a reference); NULL: all are there
};

void stats_init(struct stats *st, const struct services *services);

/// After the last connection has closed.
void stats_close(struct stats *st);
