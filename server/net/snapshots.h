// One snapshot of something for all who have asked before it was begun. It is made and handed out
// in slices, one in each turn of the loop, and a part of the loop's time at most goes into making
// them, however often they are asked for.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "server/net/request.h"

// A whole one, which stays until it has gone to everybody.
struct snapshot {
    unsigned refs;
    void *data; // malloc'ed
    size_t size;
};

// Who has asked. Embedded.
struct snapshot_asker {
    struct list link;
    /// `n` NULL: there is none, for this reason. It is valid in the call, and longer for who has a
    /// reference. May free the asker, and may ask again.
    void (*told)(struct snapshot_asker *a, struct snapshot *n, const struct error *e);
};

struct snapshots;

struct snapshots_ops {
    const char *part; // of a turn, see turns_mark()
    /// Calls snapshots_begin() when there is what one is made of, from inside or later.
    void (*prepare)(struct snapshots *all);
    /// Failed, it leaves nothing; else end() follows, whole or not.
    int (*begin)(struct snapshots *all, struct error *e);
    /// Adds a slice. 1: more are to come; 0: it is whole.
    int (*more)(struct snapshots *all, struct error *e);
    /// What there is of it; the caller frees *data.
    int (*end)(struct snapshots *all, void **data, size_t *size, struct error *e);
    /// Answers who has asked with a message.
    void (*answer)(struct snapshots *all, struct request *r, struct snapshot *n);
};

// Embedded by who makes them. Loop thread only.
struct snapshots {
    const struct snapshots_ops *ops;
    struct list waiting;  // for the next one
    struct list served;   // by this one
    struct snapshot *now; // NULL: none is whole
    bool preparing;       // the next one
    bool making;          // one for `served`
    uint64_t took_us;     // of the processor, to make it, so far
    uint64_t next_us;     // uv_hrtime(): not before then is the next one begun
    uv_timer_t timer;
};

void snapshots_init(struct snapshots *all, const struct snapshots_ops *ops, uv_loop_t *loop);

/// Safe to repeat. Askers are told nothing more.
void snapshots_close(struct snapshots *all);

/// For prepare(): whoever has asked by now has the one that is begun here.
void snapshots_begin(struct snapshots *all);

/// Calls a->told(), never from inside. list_remove() of the link takes the request back.
void snapshots_get(struct snapshots *all, struct snapshot_asker *a);

/// The same for a message, which answer() answers when its connection has room for that.
int snapshots_ask(struct snapshots *all, struct requests *requests, const struct frame_header *h,
                  struct error *e);

/// Ends a request with a message, and a snapshot as its payload.
void snapshot_answer(struct snapshot *n, struct request *r, const pb_msgdesc_t *fields,
                     const void *message);
