// What a worker process is told of clients' memory: each memory once, after that it is a number;
// and the bindings of a context when they differ from those of its last run.
#pragma once

#include "server/jobs/binding.h"
#include "server/runner/worker_process.h"

// Of one worker after the other. Embedded by their owner.
struct worker_memories {
    struct list users;              // struct memory_user: what the present worker knows
    struct worker_process *process; // NULL: there is none
};

void worker_memories_init(struct worker_memories *w);

/// A new worker knows nothing; NULL: the old one is gone.
void worker_memories_reset(struct worker_memories *w, struct worker_process *process);

/// Tells the worker where the tensors of its context number `context` are in the next run: as in
/// `now`, after `before` (of the same worker). Either may be NULL.
int worker_memories_bind(struct worker_memories *w, uint32_t context, const struct binding *before,
                         const struct binding *now, struct error *e);
