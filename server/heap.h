// What the daemon has allocated, and how what lies between goes back to the system. Loop thread
// only.
//
// malloc() gives back what is free at an arena's end. A crowd that has gone leaves holes behind
// what lives on, each page of which stays the daemon's: 20 MB after a thousand TLS handshakes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Embedded by the server.
struct heap {
    uint64_t allocated, asked_ms; // uv_now(); 0: never
    uint64_t rest;                // bytes of memory beside that, since holes were given back
    uint64_t least;               // of them, ever
    uint64_t trimmed_ms;
};

/// Before there is a crowd.
void heap_init(struct heap *h, uint64_t now_ms);

/// Bytes, at most half a second old: to ask takes the lock of each arena.
uint64_t heap_allocated(struct heap *h, uint64_t now_ms);

/// Gives holes back if they have grown by some megabytes: some milliseconds, and the lock of each
/// arena. Not while threads of the daemon work that allocate. `last`: it is not asked soon again.
void heap_look(struct heap *h, uint64_t now_ms, bool last);
