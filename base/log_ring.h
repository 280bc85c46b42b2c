// The last lines of a log, in a bounded piece of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

#define LOG_RING_TEXT 1024 // bytes of a line's text, the zero byte included

// No lock: the owner's. Lines are numbered from 1 on; new ones push out the oldest.
struct log_ring {
    uint8_t *data;
    size_t size;          // bytes of `data`
    uint64_t start, end;  // where lines begin and end, in bytes put since the beginning
    uint64_t first, next; // number of the oldest line that is there; of the line that comes next
};

struct log_ring_line {
    uint64_t time_us; // as it was put
    enum log_level level;
    char text[LOG_RING_TEXT];
};

// Where a reader is.
struct log_ring_cursor {
    uint64_t number; // of the line that is read next
    uint64_t at;     // the ring's
};

/// `size` is at least 4 * LOG_RING_TEXT.
int log_ring_init(struct log_ring *r, size_t size, struct error *e);
void log_ring_done(struct log_ring *r);

/// Adds a line; text that does not fit is cut.
void log_ring_put(struct log_ring *r, enum log_level level, uint64_t time_us, const char *text);

/// At the line of this number; at the oldest one if that is gone, behind the last one if it has not
/// come. Valid until the next put.
struct log_ring_cursor log_ring_seek(const struct log_ring *r, uint64_t number);

/// The line at the cursor, which moves on; false at the end.
bool log_ring_read(const struct log_ring *r, struct log_ring_cursor *c, struct log_ring_line *ret);
