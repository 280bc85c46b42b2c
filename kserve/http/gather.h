// Requests that are small, quick and like the last one of their connection: a thread, or two, do
// those of all connections, several at a time, so that a request need not wake a thread twice.
#pragma once

#include <pthread.h>

#include "kserve/http/exchange.h"

struct gather;

/// On a machine with so many processors. NULL: no memory, or no thread.
struct gather *gather_new(struct exchange_site *s, unsigned processors,
                          const pthread_attr_t *threads);

/// When no connection is lent. NULL is fine.
void gather_free(struct gather *t);

/// Of the connection's own thread, behind an exchange(): lends the connection for as long as what
/// comes is like what was. False: it is to end. Where nothing can be like it, returns at once.
bool gather_lend(struct gather *t, struct guest *g);
