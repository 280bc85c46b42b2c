// All who have connected to a board that waits to be paired. There is room for some at once; when
// it is full, the network that has most of it makes room, and of its guests the one that has come
// least far. So whoever fills it is in his own way.
#pragma once

#include "tools/pair/pair_guest.h"

#define CROWD_MAX      32
#define CROWD_NETWORKS 64

struct pair_crowd {
    struct pair_guest guests[CROWD_MAX];
    int listener;
    void (*shown)(const struct pair_guest *g, void *owner);  // its codes are there
    void (*agreed)(const struct pair_guest *g, void *owner); // the person can type its other code
    void *owner;
    struct crowd_attempts {
        char network[GUEST_FROM];
        unsigned n;
    } attempts[CROWD_NETWORKS]; // that a network has had at the person's attention
    unsigned n_networks;        // that were ever in it
    unsigned lines, unsaid;     // about strangers: that may be written now, that were left out
    uint64_t line_ms;
};

/// Takes the listening socket.
void pair_crowd_init(struct pair_crowd *c, int listener,
                     void (*shown)(const struct pair_guest *g, void *owner),
                     void (*agreed)(const struct pair_guest *g, void *owner), void *owner);

/// Tells those who are there why it is over.
void pair_crowd_done(struct pair_crowd *c, const char *why);

/// Waits, and goes on with whoever has said something. 1: the person has typed while at least one
/// guest had agreed. 0: to be called again.
int pair_crowd_wait(struct pair_crowd *c, uint64_t until_ms, struct error *e);
