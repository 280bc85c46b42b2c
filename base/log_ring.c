// The last lines of a log in a ring of bytes; the oldest are overwritten:
//
// data: | head | text | head | text | ... |      start -> oldest line, end -> behind the newest
//
// `start` and `end` count bytes since the beginning and are taken modulo the size, so a head or
// text may wrap around the end of the memory. The owner locks.
#include "base/log_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// In front of each text. The text has no terminating zero.
struct head {
    uint64_t time_us;
    uint32_t size; // of the text
    uint32_t level;
};

int log_ring_init(struct log_ring *r, size_t size, struct error *e)
{
    assert(size >= 4 * LOG_RING_TEXT);
    *r = (struct log_ring){.data = malloc(size), .size = size, .first = 1, .next = 1};
    return r->data ? 0 : error_no_memory(e, "the last lines of the log", size);
}

void log_ring_done(struct log_ring *r)
{
    free(r->data);
    r->data = NULL;
}

// How many of `n` bytes from position `at` on are before the end of the memory; the rest wraps.
static size_t before_end(const struct log_ring *r, uint64_t at, size_t n)
{
    size_t left = r->size - (size_t)(at % r->size);
    return n < left ? n : left;
}

static void copy_in(struct log_ring *r, const void *from, size_t n)
{
    size_t here = before_end(r, r->end, n);
    memcpy(r->data + r->end % r->size, from, here);
    memcpy(r->data, (const uint8_t *)from + here, n - here);
    r->end += n;
}

static void copy_out(const struct log_ring *r, uint64_t at, void *to, size_t n)
{
    size_t here = before_end(r, at, n);
    memcpy(to, r->data + at % r->size, here);
    memcpy((uint8_t *)to + here, r->data, n - here);
}

static struct head head_at(const struct log_ring *r, uint64_t at)
{
    struct head h;
    copy_out(r, at, &h, sizeof h);
    return h;
}

// Drops the oldest lines until head and text fit. LOG_RING_TEXT bounds a line, and init() asserts
// that the ring is larger, so the loop ends.
void log_ring_put(struct log_ring *r, enum log_level level, uint64_t time_us, const char *text)
{
    struct head h = {time_us, (uint32_t)strnlen(text, LOG_RING_TEXT - 1), level};
    while (r->end - r->start + sizeof h + h.size > r->size) {
        r->start += sizeof h + head_at(r, r->start).size;
        r->first++;
    }
    copy_in(r, &h, sizeof h);
    copy_in(r, text, h.size);
    r->next++;
}

// Walks from the oldest line, as lines differ in length.
struct log_ring_cursor log_ring_seek(const struct log_ring *r, uint64_t number)
{
    struct log_ring_cursor c = {r->first, r->start};
    while (c.number < number && c.number < r->next) {
        c.at += sizeof(struct head) + head_at(r, c.at).size;
        c.number++;
    }
    return c;
}

bool log_ring_read(const struct log_ring *r, struct log_ring_cursor *c, struct log_ring_line *ret)
{
    if (c->number >= r->next)
        return false;
    struct head h = head_at(r, c->at);
    ret->time_us = h.time_us;
    ret->level = (enum log_level)h.level;
    copy_out(r, c->at + sizeof h, ret->text, h.size);
    ret->text[h.size] = 0;
    c->at += sizeof h + h.size;
    c->number++;
    return true;
}
