// Long work: a model on its way to the server, or steps that are counted. Measured always, drawn on
// standard error if that is a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; // what is on its way, or done; outlives the progress
    bool draw;
    bool counts; // steps, not bytes
    uint64_t start_ns, drawn_ns, end_ns;
    uint64_t done, total; // total 0: there was nothing to do
};

/// Watches the uploads of this thread from now on.
void progress_start(struct progress *p, const char *label);

/// For steps that are counted by the caller with progress_count(), from this thread.
void progress_start_counting(struct progress *p, const char *label);
void progress_count(struct progress *p, uint64_t done, uint64_t total);

/// Erases what is drawn, for a line of something else; it may be drawn again.
void progress_erase(struct progress *p);

/// Stops watching and erases what was drawn.
void progress_end(struct progress *p);

/// Time of the upload so far or, when it is over, in all; 0 when there was none.
uint64_t progress_ns(const struct progress *p);
