// Servers that announce themselves on the network (rknnd --announce), found through Avahi (DNS-SD).
// One thread uses a `struct network`; its callbacks run inside network_wait().
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct network_server {
    char uri[160];
    char name[64]; // its host's, mostly
    char chip[32]; // "": it does not say
    char tls[16];  // "no" or "": it takes connections without protection; "1.3": those of tls:
};

struct network;

/// Begins to listen. Fails if Avahi does not run.
int network_open(struct network **ret, struct error *e);
void network_close(struct network *n);

/// Runs Avahi's events for `ms`, or (`until_known`) until all servers that answer at once are
/// known. Fails if Avahi ends.
int network_wait(struct network *n, unsigned ms, bool until_known, struct error *e);

/// The servers known now, each once, by its best address. Returns how many, at most `max`.
size_t network_list(const struct network *n, struct network_server *ret, size_t max);
