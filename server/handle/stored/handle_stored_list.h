// MODEL_LIST: one list of stored models for all who ask at about the same time.
#pragma once

#include "server/net/delimited.h"
#include "server/net/snapshots.h"

struct services;
struct stored_read;

// Embedded by the server. Loop thread only.
struct stored_list {
    const struct services *services;
    struct snapshots all;
    struct stored_read *read; // what the disk has, while lines are made of it
    size_t at;                // of these, the next one
    struct delimited lines;
};

void stored_list_init(struct stored_list *l, const struct services *services);

/// Before the shelf stops.
void stored_list_close(struct stored_list *l);
