// There must be memory for all that a body says that it will have, before that has come: so whoever
// says more than there is hears it at once, and has not sent it for nothing. What is kept of it is
// for what has come: who only says that much will come keeps nobody else from it.
#include "kserve/http/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"

#define MAX_TRAILERS 4096 // bytes
#define FLOW_MS      10   // in which a body that goes on has come
#define MAX_DIGITS   15   // of a chunk's size
#define PIECE        (256U << 10)

static unsigned refuse(unsigned status, struct error *e, const char *words)
{
    error_set(e, STATUS_PARAM_INVALID, "%s", words);
    return status;
}

static unsigned too_large(struct error *e)
{
    return refuse(413, e, "the body is larger than this server takes (--max-body)");
}

static unsigned too_many(struct error *e)
{
    return refuse(503, e, "too many large requests at once (--memory)");
}

static bool take(struct body *b, uint64_t bytes)
{
    if (!memory_take(b->share, bytes, MEMORY_SOON_MS))
        return false;
    b->taken += bytes;
    return true;
}

// All but so many bytes.
static void give_all_but(struct body *b, uint64_t bytes)
{
    if (b->taken <= bytes)
        return;
    memory_give(b->share, b->taken - bytes);
    b->taken = bytes;
}

void body_done(struct body *b)
{
    free(b->made);
    b->made = NULL;
    give_all_but(b, 0);
}

// ---- by its length ------------------------------------------------------------------------------

static bool tell_to_send(struct talk *t, const struct http_head *h)
{
    static const char words[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec all = {(void *)(uintptr_t)words, sizeof words - 1};
    return !h->expects || talk_send(t, &all, 1);
}

// Pages that nothing has been written to are none yet.
static unsigned reserve(struct body *b, struct error *e)
{
    if (!take(b, b->size))
        return too_many(e);
    give_all_but(b, PIECE);
    if (!(b->made = malloc(b->size)))
        return refuse(503, e, "there is no memory for this request");
    b->bytes = b->made;
    return 0;
}

static unsigned read_rest(struct body *b, struct talk *t, struct error *e)
{
    while (b->has < b->size) {
        size_t n = size_min(b->size - b->has, PIECE);
        if (b->has + n > b->taken && !take(b, b->has + n - b->taken))
            return too_many(e);
        if (!talk_take(t, b->made + b->has, n))
            return BODY_GONE;
        b->has += n;
    }
    return 0;
}

// What has come whole stays where it is.
static unsigned read_length(struct body *b, struct talk *t, const struct http_head *h,
                            struct error *e)
{
    b->size = (size_t)h->length;
    if (b->size <= t->end - t->begin) {
        b->bytes = (uint8_t *)t->buffer + t->begin;
        t->begin += b->size;
        return 0;
    }
    unsigned status = reserve(b, e);
    if (status)
        return status;
    return tell_to_send(t, h) ? read_rest(b, t, e) : BODY_GONE;
}

// The JSON stays in the connection's buffer. On a pause everything moves to memory of its own, as
// if it had been read there from the begin.
bool body_read_to(struct body *b, struct talk *t, const struct http_head *h, uint8_t *to,
                  unsigned *ret_status, struct error *e)
{
    size_t text = (size_t)h->tensors, n = (size_t)h->length - text;
    b->bytes = (uint8_t *)t->buffer + t->begin;
    b->size = (size_t)h->length;
    t->begin += text;
    size_t got = talk_take_soon(t, to, n, FLOW_MS);
    *ret_status = 0;
    if (got == n)
        return true;
    const uint8_t *json = b->bytes;
    *ret_status = reserve(b, e);
    if (*ret_status == 0) {
        memcpy(b->made, json, text);
        memcpy(b->made + text, to, got);
        b->has = text + got;
    }
    return false;
}

unsigned body_read_on(struct body *b, struct talk *t, struct error *e)
{
    return read_rest(b, t, e);
}

// ---- in chunks ----------------------------------------------------------------------------------

// The peer has gone, or wrote what is no line.
static unsigned no_line(const struct talk *t, struct error *e)
{
    bool came = t->end == TALK_ROOM || memchr(t->buffer + t->begin, '\n', t->end - t->begin);
    return came ? refuse(400, e, "a chunk has a line that is none") : BODY_GONE;
}

// RFC 9112, 7.1: digits, and perhaps ";" with what nobody here knows.
static unsigned read_chunk_size(struct talk *t, uint64_t *ret, struct error *e)
{
    const char *line = talk_line(t);
    if (!line)
        return no_line(t, e);
    size_t n = strspn(line, "0123456789abcdefABCDEF");
    if (n == 0 || n > MAX_DIGITS || (line[n] && line[n] != ';') || strpbrk(line, "\r\n"))
        return refuse(400, e, "a chunk's size is no number");
    *ret = strtoull(line, NULL, 16);
    return 0;
}

// Nobody said how many bytes will come in all.
static unsigned grow(struct body *b, size_t n, struct error *e)
{
    size_t old = b->room;
    if (array_reserve(b->made, b->room, b->size + n, "a body", NULL) < 0 || !take(b, b->room - old))
        return too_many(e);
    return 0;
}

static unsigned read_chunk(struct body *b, struct talk *t, uint64_t n, uint64_t most,
                           struct error *e)
{
    char end[2];
    if (n > most - b->size)
        return too_large(e);
    for (size_t part; n > 0; n -= part) {
        part = n < PIECE ? (size_t)n : PIECE;
        unsigned status = grow(b, part, e);
        if (status)
            return status;
        if (!talk_take(t, b->made + b->size, part))
            return BODY_GONE;
        b->size += part;
    }
    if (!talk_take(t, end, sizeof end))
        return BODY_GONE;
    return memcmp(end, "\r\n", 2) == 0 ? 0 : refuse(400, e, "a chunk does not end where it should");
}

// Nothing in them is asked for.
static unsigned skip_trailers(struct talk *t, struct error *e)
{
    size_t n = 0;
    char *line;
    while ((line = talk_line(t)) && *line) {
        if ((n += strlen(line)) > MAX_TRAILERS)
            return refuse(431, e, "there are too many trailers");
        if (!head_is_field(line))
            return refuse(400, e, "a trailer is no header");
    }
    return line ? 0 : no_line(t, e);
}

// A client that waits for "100 Continue" has sent nothing yet; one that did not wait need not hear
// it. The trailers belong to the body: the next request begins behind them.
static unsigned read_chunks(struct body *b, struct talk *t, const struct http_head *h,
                            uint64_t most, struct error *e)
{
    uint64_t n = 1;
    unsigned status = t->end > t->begin || tell_to_send(t, h) ? 0 : BODY_GONE;
    while (status == 0 && n > 0) {
        status = read_chunk_size(t, &n, e);
        if (status == 0 && n > 0)
            status = read_chunk(b, t, n, most, e);
    }
    b->bytes = b->made;
    return status ? status : skip_trailers(t, e);
}

unsigned body_read(struct body *b, struct talk *t, const struct http_head *h, uint64_t most,
                   struct error *e)
{
    if (h->is_chunked)
        return read_chunks(b, t, h, most, e);
    if (h->length > 0 && (uint64_t)h->length > most)
        return too_large(e);
    return h->length > 0 ? read_length(b, t, h, e) : 0;
}

// The unpacked body takes the packed one's place; for a moment both are there, and both are paid
// for.
unsigned body_unpack(struct body *b, enum packing p, uint64_t most, struct error *e)
{
    struct packing_plain plain;
    if (p == PACKING_NONE)
        return 0;
    int s = packing_unpack(p, b->bytes, b->size, (size_t)most, b->share, &plain, e);
    if (s < 0)
        return s == STATUS_MALLOC_FAIL ? 503 : 400;
    body_done(b);
    b->bytes = b->made = plain.bytes;
    b->size = (size_t)plain.size;
    b->taken = plain.room;
    b->room = (size_t)plain.room;
    return 0;
}
