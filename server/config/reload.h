// SIGHUP: reads the configuration again, and gives it to what runs.
//
//   reload_begin() ─► a thread: options, keys, new addresses ─► the loop: reload_done
//
// What is wrong with it is logged, and everything stays as it was.
#pragma once

#include <uv.h>

#include "base/error.h"
#include "server/config/options.h"
#include "server/listen/addresses.h"

// Embedded by the server. What is read belongs to the thread while `busy`.
struct reload {
    uv_work_t work;
    bool busy, again;             // `again`: another SIGHUP has come meanwhile
    const struct options *now;    // not changed while `busy`
    const struct addresses *here; // where the server listens; as `now`
    bool others;                  // addresses_find()
    /// What has been read; to be taken over before it returns: the rest is closed.
    void (*done)(struct reload *r);

    struct options options;
    struct addresses addresses;
    struct listeners listeners; // new ones
    struct tls_context *tls;    // NULL: none
    struct error failed;        // code 0: it did not, and the parts above are good
    bool new_log_level;         // it counts already
};

/// Reads on a thread, and then calls done() on the loop.
void reload_begin(struct reload *r, uv_loop_t *loop);

/// Nothing is read any more.
void reload_close(struct reload *r);
