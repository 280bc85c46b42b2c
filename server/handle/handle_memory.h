// What MEMORY_CREATE and MEMORY_IMPORT share.
#pragma once

#include "server/clients/account.h"
#include "server/jobs/memory.h"
#include "server/net/connection.h"

struct threads;

#define IMPORTS_MAX 32 // of ACCOUNT_IMPORTS, in all; each has a thread

// Files of clients that are being mapped. Embedded by the server.
struct imports {
    struct threads *threads; // NULL: nobody has asked yet
    struct list all;         // under way, or hanging
    unsigned n;
};

void imports_init(struct imports *all);

/// For shutdown.
void imports_stop(struct imports *all);

/// Whether the client's session may have one more memory, of `size` bytes.
int memory_check_room(const struct connection *c, uint64_t size, struct error *e);

/// Charges a user for one memory, or refunds it.
int memory_charge(struct account *a, uint64_t size, struct error *e);
void memory_refund(struct account *a, uint64_t size);

/// Gives the client's session a handle of the memory, if it may have one, and says which.
int memory_give_handle(const struct connection *c, struct memory *memory, rknnd_MemoryInfo *ret,
                       struct error *e);
