// A few threads that do tasks in order of arrival; the end of each is told on the loop.
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/list.h"

#define THREADS_MAX 64

struct threads;

// A piece of work. Embedded by its owner; must stay until finish().
struct task {
    /// On one of the threads. threads_post() must be called once for it, from here or later.
    void (*work)(struct task *t);
    /// On the loop, after threads_post().
    void (*finish)(struct task *t);
    struct threads *threads; // set by threads_do() and threads_post()
    struct list link;        // while no thread has it
    struct hand *hand;       // of the thread that has it; NULL: none yet
    struct task *next;       // of those that are done
};

/// Whether `n` threads can be started now, as far as one can know; for the start of the daemon.
int threads_check(unsigned n, struct error *e);

/// One thread; threads_grow() adds more. Loop thread only, except threads_post().
int threads_new(uv_loop_t *loop, struct threads **ret, struct error *e);

/// Makes it `n` threads (if it has fewer).
int threads_grow(struct threads *s, unsigned n, struct error *e);

void threads_do(struct threads *s, struct task *t);

/// Takes back a task that no thread has begun: neither work() nor finish() comes. False: a thread
/// has begun it.
bool threads_take_back(struct threads *s, struct task *t);

/// From any thread: the loop calls t->finish(t) soon.
void threads_post(struct threads *s, struct task *t);

/// Ends the threads when they have done all that was given to them, and then calls closed(owner),
/// if it is not NULL, on the loop. May be called from finish().
void threads_free(struct threads *s, void (*closed)(void *owner), void *owner);

/// Gives up threads that do not come back: no finish() will come any more, closed() comes soon.
/// What the threads use, and the struct itself, is never freed. Not from finish().
void threads_abandon(struct threads *s, void (*closed)(void *owner), void *owner);
