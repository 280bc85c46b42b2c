// What a daemon has counted, told to the one that takes its place (upgrade/handover.h): first all
// of it, then, from time to time, what its sessions have added. So a counter never goes back at an
// upgrade, and what runs in sessions of the daemon before is seen. Loop thread only.
#pragma once

#include "base/error.h"

struct counted;
struct metrics;
struct services;

// The teller's side. Embedded, zero at first.
struct metrics_counts {
    const struct services *services;
    struct counted *told, *next; // all in all
};

/// A memfd with what is new since counts_told(); -1: nothing is. The caller's.
int counts_tell(struct metrics_counts *c, int *ret, struct error *e);

/// What counts_tell() gave last has arrived.
void counts_told(struct metrics_counts *c);

/// Nobody has been told anything.
void counts_forget(struct metrics_counts *c);

/// Adds what such a memfd (taken over) tells of. One of a daemon that counts in another way is an
/// error, with words.
int counts_add(struct metrics *m, int fd, struct error *e);
