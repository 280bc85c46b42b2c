// Large memory on its way back to the kernel, which takes a quarter of a second for a gigabyte. The
// loop unmaps it, some of it in each of its turns, since a thread that lost the processor meanwhile
// would keep what the kernel locks for that; a thread closes the file. Until all is done who had
// the memory pays for it, but for GIVEBACK_SPARE bytes: else he could have it again and again.
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "server/clients/account.h"
#include "server/net/rounds.h"

#define GIVEBACK_LARGE 65536u      // bytes; with less, all this costs as much
#define GIVEBACK_SMALL 64          // of those with less go at once, in a turn of the loop
#define GIVEBACK_SPARE (64u << 20) // of a user's, that are on their way and not paid for

struct threads;
struct user;

struct givebacks {
    struct rounds *rounds;   // whose turns it takes; NULL: all at once
    struct threads *threads; // NULL: before the start, and after the end
    struct rounds_line line;
    struct list unmapping;
    uint64_t turn_ms; // uv_now() of the turn
    unsigned n_small; // that came in it
};

// What there is of it.
struct giveback_memory {
    void *map;     // NULL: not mapped
    uint64_t size; // of the file, and of the mapping
    int fd;        // -1: it is no file, or stays open
};

void givebacks_init(struct givebacks *all, struct rounds *rounds);

/// One thread, at the daemon's start.
int givebacks_start(struct givebacks *all, uv_loop_t *loop, struct error *e);

/// Takes over the memory. If it is small, and few have come in this turn of the loop, or `all` is
/// NULL or has not started, it goes at once.
/// `payer`, if it is not NULL, is charged for its bytes as `what` until it has gone. Loop thread
/// only.
void give_back(struct givebacks *all, const struct giveback_memory *memory, struct user *payer,
               enum account_resource what);

/// Unmaps `size` bytes and calls done(owner), maybe before it returns.
void give_back_map(struct givebacks *all, void *map, uint64_t size, void (*done)(void *owner),
                   void *owner);

/// Before the end of `rounds`: what is under way, and what comes, is unmapped at once.
void givebacks_hurry(struct givebacks *all);

/// The thread ends with what is under way.
void givebacks_close(struct givebacks *all);
