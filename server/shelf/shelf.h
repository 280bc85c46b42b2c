// The model store of a daemon: models by name, on a disk (shelf_disk.h) that only one thread
// touches, so that a slow one holds nobody up who does not ask for it, and users take turns at it.
// Loop thread only.
#pragma once

#include "server/shelf/shelf_disk.h"
#include "server/shelf/shelf_line.h"
#include "server/threads.h"

struct shelf_work;
struct user;

struct shelf {
    uv_loop_t *loop;
    int root;                         // -1: there is no model store
    char *path;                       // which names it
    struct threads *threads;          // one
    struct list works;                // shelf_work: all that is under way
    struct list lines;                // of those that wait for the thread, the next one first
    struct shelf_line own;            // of the server itself
    bool busy;                        // the thread has a work
    uint64_t push_turns;              // pushes that have begun, for user.pushed
    void (*changed)(struct shelf *s); // what names mean may be something else now
    // As it was when it was last looked at.
    uint64_t n_stored, bytes;
    // Since the start.
    uint64_t n_pushes, n_loads, n_failures;
};

// Something that is under way. Embedded by its owner.
struct shelf_work {
    struct task task;
    struct list link, turn; // in shelf.works, shelf_line.waiting
    struct shelf *shelf;
    struct user *user;  // who waits for it, with a reference; NULL: the server itself
    int root;           // for run()
    const char *path;   // of root
    bool on_thread;     // run() may use the rest of the struct now
    struct error error; // code 0: it went well
    /// On the thread.
    void (*run)(struct shelf_work *w);
    /// On the loop, after run().
    void (*done)(struct shelf_work *w);
    /// The server stops: gives up what belongs to the server, and frees the work if it is not on
    /// the thread. Neither of the others comes any more.
    void (*stop)(struct shelf_work *w);
};

/// Without a model store until shelf_start().
void shelf_init(struct shelf *s, uv_loop_t *loop, void (*changed)(struct shelf *s));

/// Opens the folder, and has cleaned up what was left there.
int shelf_start(struct shelf *s, const char *path, struct error *e);

/// Ends everything.
void shelf_stop(struct shelf *s);

/// Words, if there is no model store.
int shelf_check(const struct shelf *s, struct error *e);

/// It exists from here on, until shelf_end_work(); its calls are set.
void shelf_begin_work(struct shelf *s, struct shelf_work *w, struct user *user);

/// Has run() called with the disk when it is the user's turn, and then done(). Can be repeated.
void shelf_do(struct shelf_work *w);

/// Not on the thread. One that waits for it does no more.
void shelf_end_work(struct shelf_work *w);

/// Names mean something else now, or have gone: counts again, and tells.
void shelf_note_change(struct shelf *s);

/// Counts what a list has.
void shelf_count(struct shelf *s, const struct stored *all, size_t n);

/// Bytes that the disk can hold in all; 0: there is no model store.
uint64_t shelf_disk_size(const struct shelf *s);
