// What a worker is about to do at its own risk, in memory that outlives it: so that its death has a
// name.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define BREADCRUMBS_MAX  15
#define BREADCRUMBS_SIZE sizeof(struct breadcrumbs)

// Exit code of one that cannot begin because there are no more threads to be had.
#define WORKER_EXIT_NO_THREADS 4

// Shared between daemon and worker; the daemon does not trust it.
struct breadcrumbs {
    char in_use[BREADCRUMBS_MAX + 1]; // the worker's own
    char text[BREADCRUMBS_MAX][256];
};

/// In the worker: notes it until breadcrumbs_leave(). Returns the crumb's number; -1 (there is no
/// room) and NULL are fine. Any thread.
int breadcrumbs_enter(struct breadcrumbs *n, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void breadcrumbs_leave(struct breadcrumbs *n, int crumb);

/// In the daemon, after the worker's death: its first crumb, printable; false if there is none.
bool breadcrumbs_last(const struct breadcrumbs *n, char *ret, size_t size);
