// What is answered: a status, and a body that grows. Allocation failures show in the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "kserve/memory.h"
#include "kserve/seats.h"

struct reply {
    unsigned code; // HTTP status
    char *body;    // malloc'ed
    size_t size, room;
    struct memory_share *share; // that large ones are paid from
    struct seat *seat;          // of who makes it
    uint64_t taken;             // of it; may be more than `room`, before the body is there
    size_t header;              // bytes of JSON in front of tensors; 0: there are none
    bool no_memory;             // something is missing
    bool retry_soon;            // it may work in a second
};

void reply_done(struct reply *r);

/// What is to be sent. Where there is no memory for that, words that say so and need none.
struct bytes reply_bytes(const struct reply *r);

/// Gives back what was taken of the share and is not in the body.
void reply_trim(struct reply *r);

/// Takes a malloc'ed body that says the same in fewer bytes.
void reply_replace(struct reply *r, void *body, size_t size);

void reply_add(struct reply *r, const void *data, size_t n);
void reply_print(struct reply *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

void reply_text(struct reply *r, const char *text);
void reply_number(struct reply *r, uint64_t n);

/// As a JSON string, with quotes; what is no UTF-8 becomes "?".
void reply_quote(struct reply *r, const char *text);

/// Starts over: the body is {"error": "…"}.
void reply_fail(struct reply *r, unsigned code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The same for an error's words, with the status that its code stands for.
void reply_fail_with(struct reply *r, const struct error *e);
