// Where a server listens by its options.
#pragma once

#include <stdbool.h>

#include "server/config/options.h"
#include "server/listen/listener.h"

struct addresses {
    const char *uri[OPTIONS_MAX_LISTEN]; // of the options, which have to stay, or by_default
    unsigned n;
    char by_default[4096];
};

/// Those of --listen; without any the system's socket for root, else the user's, unless there are
/// others: sockets of the service manager or of --adopt.
int addresses_find(const struct options *o, bool others, struct addresses *ret, struct error *e);

bool addresses_have(const struct addresses *a, const char *uri);

/// How to listen at one: listen_at() or listen_later().
typedef int addresses_listen(struct listeners *l, const char *uri, struct error *e);

/// Listens at all of them but those that `but` has (NULL: none). On failure `l` keeps those before.
int addresses_open(const struct addresses *a, const struct addresses *but, struct listeners *l,
                   addresses_listen *listen, struct error *e);

/// The same with listeners that another daemon hands over: those that are named have to be allowed,
/// and the rest are opened.
int addresses_succeed(const struct addresses *a, struct listeners *l, struct error *e);

/// Closes those that are not named.
void addresses_close_others(const struct addresses *a, struct listeners *l);
