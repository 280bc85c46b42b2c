// A model on its way to the server: measured always, drawn on standard error if that is a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; // what is on its way; outlives the progress
    bool draw;
    uint64_t start_ns, drawn_ns, end_ns;
    uint64_t done, total; // bytes; total 0: the server held them already
};

/// Watches the uploads of this thread from now on.
void progress_start(struct progress *p, const char *label);

/// Stops watching and erases what was drawn.
void progress_end(struct progress *p);

/// Time of the upload so far or, when it is over, in all; 0 when there was none.
uint64_t progress_ns(const struct progress *p);
