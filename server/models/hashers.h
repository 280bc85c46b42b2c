// Threads that hash. While a file arrives, with what others leave of the processors: nobody waits
// for its hash, but runs and connections wait for processors. When it is complete, as everybody
// else.
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
#include "server/threads.h"

#define HASHERS_MAX 4 // threads of each kind

struct hashers {
    // NULL: before hashers_start(), and after hashers_close().
    struct threads *patient, *awaited;
};

// Some bytes that are to be hashed. Embedded by its owner; must stay until done().
struct hashing {
    struct sha256 *hash;
    const void *data;
    size_t size;
    bool awaited;                    // somebody waits for the hash
    void (*done)(struct hashing *h); // on the loop
    struct task task;
};

/// One thread of each kind, at the daemon's start: what wakes the loop has a descriptor, for which
/// there may be no room later. `all` is zero.
int hashers_start(struct hashers *all, uv_loop_t *loop, struct error *e);

/// Makes it `n` threads of each kind, or HASHERS_MAX if that is less; before hashers_do().
int hashers_need(struct hashers *all, unsigned n, struct error *e);

void hashers_do(struct hashers *all, struct hashing *h);

/// Ends the threads, as soon as nothing is being hashed; done() still comes for what is.
void hashers_close(struct hashers *all);
