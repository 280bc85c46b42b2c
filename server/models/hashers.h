// Threads that hash, with what others leave of the processors: nobody waits for a hash before its
// file is complete, but runs and connections wait for processors.
#pragma once

#include "base/sha256.h"
#include "server/threads.h"

#define HASHERS_MAX 4 // threads

struct hashers {
    uv_loop_t *loop;
    struct threads *threads; // NULL: none were needed yet
    unsigned n_busy;
    bool closed;
};

// Some bytes that are to be hashed. Embedded by its owner; must stay until done().
struct hashing {
    struct sha256 *hash;
    const void *data;
    size_t size;
    void (*done)(struct hashing *h); // on the loop
    struct hashers *all;             // set by hashers_do()
    struct task task;
};

void hashers_init(struct hashers *all, uv_loop_t *loop);

/// Makes it `n` threads, or HASHERS_MAX if that is less; before hashers_do().
int hashers_need(struct hashers *all, unsigned n, struct error *e);

void hashers_do(struct hashers *all, struct hashing *h);

/// Ends the threads, as soon as nothing is being hashed.
void hashers_close(struct hashers *all);
