// What a worker is about to do at its own risk, in memory that outlives it: so that its death has a
// name.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define NOTES_MAX  15
#define NOTES_SIZE sizeof(struct notes)

// Shared between daemon and worker; the daemon does not trust it.
struct notes {
    char in_use[NOTES_MAX + 1]; // the worker's own
    char text[NOTES_MAX][256];
};

/// In the worker: notes it until notes_leave(). Returns the note's number; -1 (there is no room)
/// and NULL are fine. Any thread.
int notes_enter(struct notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
void notes_leave(struct notes *n, int note);

/// In the daemon, after the worker's death: its first note, printable; false if there is none.
bool notes_last(const struct notes *n, char *ret, size_t size);
