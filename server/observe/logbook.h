// The last lines that were logged, for clients; those who wait for more get them as they come.
#pragma once

#include <pthread.h>
#include <uv.h>

#include "base/log_ring.h"
#include "server/clients/account.h"
#include "server/net/request.h"

// Embedded by the server. The log itself is the process's: servers in one process have the same
// lines.
struct logbook {
    struct log_watcher watcher;
    pthread_mutex_t lock; // of the ring
    struct log_ring ring;
    struct list waiting; // struct reader
    uv_async_t news;
    bool open;
};

int logbook_init(struct logbook *b, uv_loop_t *loop, struct error *e);

/// Answers LOG: now, or when there is something. Who waits is charged to the account, which stays
/// as long as the requests.
int logbook_read(struct logbook *b, struct requests *requests, const struct frame_header *h,
                 const rknnd_Log *m, struct account *account, struct error *e);

/// Tells those who wait that no more comes.
void logbook_dismiss(struct logbook *b, const struct error *why);

/// Nobody waits any more. Safe to repeat, and without logbook_init().
void logbook_close(struct logbook *b);
