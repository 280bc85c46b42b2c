// Who computes at once: as many requests as there are processors, the others in line, so that a
// kernel does not share these out among hundreds of threads. Of peers who wait the one goes first
// that has computed least. Who sits for long, or waits for something while he does, is left to the
// kernel: his seat goes to another one, too.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct seat_peer;

struct seats {
    pthread_mutex_t lock;
    pthread_cond_t wanted; // CLOCK_MONOTONIC; somebody waits, or it is the end
    pthread_t thread;
    struct list peers, row, sitting;
    unsigned n_free;
    atomic_uint n_waiting; // in line
    uint64_t (*clock)(void);
    uint64_t patience_ns;
    uint64_t floor_ns; // what the last one who came to sit had used
    bool stop;
};

// Who is at the other end, as far as turns go: an address, a user, or one connection.
struct seat_key {
    uint8_t bytes[24];
};

// One connection's. All zero: sits where it likes.
struct seat {
    struct seats *of;
    struct seat_peer *peer;
    struct list link; // in the peer's line, or of those who sit
    uint64_t since_ns;
    bool lent; // to another one, too
    sem_t turn;
};

/// Of so many; from one that is held longer than `patience_ns` another one is made. `clock`:
/// clock_ns(). NULL: no memory, or no thread.
struct seats *seats_new(unsigned n, uint64_t patience_ns, uint64_t (*clock)(void));
/// When nobody has one any more. NULL is fine.
void seats_free(struct seats *s);

/// False: no memory.
bool seat_init(struct seat *t, struct seats *s, const struct seat_key *key);
void seat_done(struct seat *t);

/// Waits for it. Who has it gives it up before he waits for something else. NULL is fine in both.
void seat_take(struct seat *t);
void seat_give(struct seat *t);
