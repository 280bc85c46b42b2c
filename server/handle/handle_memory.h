// What MEMORY_CREATE and MEMORY_IMPORT share.
#pragma once

#include "server/clients/account.h"
#include "server/jobs/memory.h"
#include "server/net/connection.h"

struct threads;

#define IMPORTS_MAX 32 // of ACCOUNT_IMPORTS, in all; each has a thread

// Files of clients that are being mapped. Embedded by the server.
struct imports {
    struct threads *threads; // NULL: before imports_start()
    struct list all;         // under way, or hanging
    unsigned n;
};

void imports_init(struct imports *all);

/// One thread, at the daemon's start: what wakes the loop has a descriptor, for which there may be
/// no room later.
int imports_start(struct imports *all, uv_loop_t *loop, struct error *e);

/// For shutdown.
void imports_stop(struct imports *all);

// Memories that are being made. Embedded by the server.
#define CREATORS_MAX 4 // threads

struct creations {
    struct threads *threads; // NULL: before creations_start(), and when creations_stop() is done
    unsigned n;
};

/// One thread, at the daemon's start. `all` is zero.
int creations_start(struct creations *all, uv_loop_t *loop, struct error *e);

/// The threads end with what is under way.
void creations_stop(struct creations *all);

/// Whether the client's session may have one more memory, of `size` bytes.
int memory_check_room(const struct connection *c, uint64_t size, struct error *e);

/// Charges a user for one memory, or refunds it.
int memory_charge(struct account *a, uint64_t size, struct error *e);
void memory_refund(struct account *a, uint64_t size);

/// Gives the client's session a handle of the memory, if it may have one, and says which.
int memory_give_handle(const struct connection *c, struct memory *memory, rknnd_MemoryInfo *ret,
                       struct error *e);
