// What is tried, on the disk before it is tried: if the machine stops in the middle, the kit says
// afterwards what it was, and does not do it again.
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct journal {
    int fd;        // locked: one kit at a time
    char boot[40]; // this boot's number
    char *past;    // what was there when it was opened
};

/// Opens or makes the file, with the folders above it. `path` NULL: the user's state folder
/// (XDG_STATE_HOME, ~/.local/state, else /var/tmp). journal_close() is safe after a failure.
int journal_open(struct journal *j, const char *path, struct error *e);
void journal_close(struct journal *j);

/// Returns when it is on the disk.
int journal_begin(struct journal *j, const char *target, const char *probe, struct error *e);
int journal_end(struct journal *j, const char *target, const char *probe, struct error *e);

enum journal_past {
    JOURNAL_CLEAR,
    JOURNAL_CUT,     // it was running when the kit ended without a word
    JOURNAL_REBOOTED // … and the machine has been started again since
};

/// How that went before this kit was started.
enum journal_past journal_past(const struct journal *j, const char *target, const char *probe);
