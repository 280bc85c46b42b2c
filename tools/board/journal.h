// What is tried, on the disk before it is tried: if the machine stops in the middle, the kit says
// afterwards what it was, and does not do it again.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct journal {
    int fd;        // locked: one kit at a time
    char boot[40]; // this boot's number
    json_t *past;  // what had begun and not ended when it was opened: "TARGET PROBE": boot
};

/// Opens or makes the file, with the folders above it. `path` NULL: the user's state folder
/// (XDG_STATE_HOME, ~/.local/state), /var/tmp where that cannot be written. journal_close() is safe
/// after a failure.
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

/// What had begun and never ended there, as words for people, behind those in `list`.
void journal_tell(const struct journal *j, const char *target, json_t *list);

/// {"TARGET PROBE": boot} of what has begun and not ended in a journal's text. Lines that are none
/// are passed over: the machine may have stopped while one was written. NULL: out of memory.
json_t *journal_read(const char *text);

/// How that went before this kit was started.
enum journal_past journal_past(const struct journal *j, const char *target, const char *probe);
