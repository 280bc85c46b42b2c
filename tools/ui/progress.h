// Long work: a model on its way to the server, or steps that are counted. Measured always, drawn on
// standard error if that is a terminal: at most ten times a second, by a thread of its own, so that
// also what takes long without a step shows that it is alive, and for how long. One progress is
// drawn at a time, the one that was started first.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; // what is on its way, or done; outlives the progress
    bool uploads;      // bytes of a model; else what the caller counts
    bool bytes;        // what is counted is bytes
    uint64_t start_ns;
    _Atomic uint64_t end_ns;
    _Atomic uint64_t done, total; // total 0: not known, or there was nothing to do
};

/// Watches the uploads of this thread from now on, and what goes on before and after one: hashing
/// the file, loading on the server. The progress stays where it is until progress_end().
void progress_start(struct progress *p, const char *label);

/// For steps that are counted by the caller. `total` 0: it is not known how many.
void progress_start_counting(struct progress *p, const char *label, uint64_t total);
void progress_start_bytes(struct progress *p, const char *label);

/// So much is done; one more is. From any thread; cheap.
void progress_count(struct progress *p, uint64_t done, uint64_t total);
void progress_step(struct progress *p);

/// Erases what is drawn, for a line of something else; it is drawn again with the next count.
void progress_erase(struct progress *p);

/// Stops watching and erases what was drawn.
void progress_end(struct progress *p);

/// Time of the upload so far or, when it is over, in all; 0 when there was none.
uint64_t progress_ns(const struct progress *p);
