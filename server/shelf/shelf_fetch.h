// A stored model comes into memory, among the models that clients have brought.
#pragma once

#include "server/shelf/shelf.h"

struct model;
struct uploads;

// Embedded by its owner, who sets the first five members but `work` before shelf_fetch().
struct shelf_fetch {
    struct shelf_work work;
    struct uploads *uploads; // through which memory is made free, and the store of models found
    char name[SHELF_NAME_SIZE], version[SHELF_VERSION_SIZE]; // checked; "": the default one
    /// On the loop, once. The model is `found`, without a reference of the owner's: he takes one
    /// or it may go. `e`: NULL, or why there is none.
    void (*fetched)(struct shelf_fetch *f, struct model *m, const struct error *e);
    /// As shelf_work's stop(): frees it, unless it is on the thread.
    void (*stopped)(struct shelf_fetch *f);
    struct stored found;
    enum { FETCH_FINDS, FETCH_WAITS, FETCH_LOADS } state;
    int fd; // of what was loaded
};

/// For this user, or NULL: the server itself. Of the same model only one is loaded at a time; the
/// others wait for it.
void shelf_fetch(struct shelf *s, struct shelf_fetch *f, struct user *user);

/// Nobody waits for it any more: true if it has not begun, and is over now, without fetched().
bool shelf_fetch_cancel(struct shelf_fetch *f);
