// gzip and deflate, by zlib. What is unpacked is bounded by what a plain body may have, and paid
// for as it grows: a small one that grows without end is stopped at that size, not behind it, and
// many at once are stopped by what all may have.
#include "kserve/http/packing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define WINDOW     15
#define GZIP       16    // added to it
#define FIRST_ROOM 16384 // bytes

#define DEFLATE_STATE (268U << 10) // bytes; zconf.h: 256 KiB and "a few kilobytes"

static const char *const names[] = {"identity", "gzip", "deflate"};

const char *packing_name(enum packing p)
{
    return names[p];
}

int packing_parse(const char *content_encoding, enum packing *ret, struct error *e)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!content_encoding || strcasecmp(content_encoding, names[i]) == 0) {
            *ret = content_encoding ? (enum packing)i : PACKING_NONE;
            return 0;
        }
    return error_set(e, STATUS_PARAM_INVALID, "Content-Encoding \"%.40s\": gzip or deflate",
                     content_encoding);
}

// Whether a list like "gzip;q=0.5, *;q=0" takes a coding.
static bool list_accepts(const char *list, const char *name)
{
    size_t n = strlen(name);
    while (*list) {
        list += strspn(list, " \t,");
        size_t length = strcspn(list, ",");
        if (length >= n && strncasecmp(list, name, n) == 0 &&
            !strchr("-_", list[n] ? list[n] : ' ')) {
            const char *q = memmem(list, length, "q=", 2);
            return !q || strtod(q + 2, NULL) > 0;
        }
        list += length;
    }
    return false;
}

enum packing packing_choose(const char *accept_encoding)
{
    if (!accept_encoding)
        return PACKING_NONE;
    return list_accepts(accept_encoding, "gzip")      ? PACKING_GZIP
           : list_accepts(accept_encoding, "deflate") ? PACKING_DEFLATE
                                                      : PACKING_NONE;
}

static int grow(struct packing_plain *p, struct memory_share *share, struct error *e)
{
    size_t next = p->room ? 2 * p->room : FIRST_ROOM;
    if (!memory_take(share, next - p->room, MEMORY_SOON_MS))
        return error_set(e, STATUS_MALLOC_FAIL, "too many large requests at once (--memory)");
    uint8_t *bytes = realloc(p->bytes, next);
    if (!bytes) {
        memory_give(share, next - p->room);
        return error_no_memory(e, "a body", next);
    }
    p->bytes = bytes;
    p->room = next;
    return 0;
}

static int inflate_some(z_stream *z, struct packing_plain *p)
{
    size_t space = p->room - p->size < UINT32_MAX ? p->room - p->size : UINT32_MAX;
    z->next_out = p->bytes + p->size;
    z->avail_out = (uInt)space;
    int s = inflate(z, Z_NO_FLUSH);
    p->size += space - z->avail_out;
    return s;
}

static int inflate_all(z_stream *z, size_t max, struct memory_share *share, struct packing_plain *p,
                       struct error *e)
{
    int s = Z_OK;
    while (s == Z_OK && p->size <= max) {
        int r = p->size == p->room ? grow(p, share, e) : 0;
        if (r < 0)
            return r;
        s = inflate_some(z, p);
    }
    if (p->size > max)
        return error_set(e, STATUS_PARAM_INVALID, "the unpacked body has more than %zu bytes", max);
    if (s == Z_STREAM_END && z->avail_in == 0)
        return 0;
    if (s == Z_MEM_ERROR)
        return error_no_memory(e, "unpacking", 0);
    return error_set(e, STATUS_PARAM_INVALID, "the packed body is broken: %s",
                     s == Z_STREAM_END ? "something follows its end"
                     : z->msg          ? z->msg
                                       : "it is cut off");
}

int packing_unpack(enum packing p, const uint8_t *data, size_t size, size_t max,
                   struct memory_share *share, struct packing_plain *ret, struct error *e)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    struct packing_plain plain = {.bytes = NULL};
    if (size > UINT32_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "a packed body of more than 4 GB");
    if (inflateInit2(&z, WINDOW + (p == PACKING_GZIP ? GZIP : 0)) != Z_OK)
        return error_no_memory(e, "unpacking", 0);
    int r = inflate_all(&z, max, share, &plain, e);
    inflateEnd(&z);
    if (r == 0) {
        *ret = plain;
        return 0;
    }
    free(plain.bytes);
    memory_give(share, plain.room);
    return r;
}

// ---- packing ------------------------------------------------------------------------------------

// Nobody waits here: who asked for a packed answer takes a plain one, too, and a request that has
// its answer and waits for memory would keep from others what it holds.
static int no_share(struct error *e)
{
    return error_set(e, STATUS_MALLOC_FAIL, "no memory to pack an answer (--memory)");
}

// The room is zlib's own bound, so one call is enough. What is not needed of it goes back at once:
// a slow peer may keep an answer for as long as it takes.
static int deflate_all(z_stream *z, size_t room, struct packing_plain *ret, struct error *e)
{
    uint8_t *out = malloc(room);
    if (!out)
        return error_no_memory(e, "a packed answer", room);
    z->next_out = out;
    z->avail_out = (uInt)room;
    if (deflate(z, Z_FINISH) != Z_STREAM_END) {
        free(out);
        return error_set(e, STATUS_FAIL, "a packed answer: zlib fails");
    }
    size_t size = room - z->avail_out;
    uint8_t *fitting = realloc(out, size);
    *ret = (struct packing_plain){.bytes = fitting ? fitting : out, .size = size, .room = size};
    return 0;
}

static int pack_in(z_stream *z, size_t room, struct memory_share *share, struct packing_plain *ret,
                   struct error *e)
{
    if (!memory_take(share, room, 0))
        return no_share(e);
    int r = deflate_all(z, room, ret, e);
    memory_give(share, r < 0 ? room : room - ret->room);
    return r;
}

int packing_pack(enum packing p, const void *data, size_t size, struct memory_share *share,
                 struct packing_plain *ret, struct error *e)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    int wrap = p == PACKING_GZIP ? GZIP : 0;
    if (size > UINT32_MAX / 2)
        return error_set(e, STATUS_PARAM_INVALID, "an answer of more than 2 GB is not packed");
    if (!memory_take(share, DEFLATE_STATE, 0))
        return no_share(e);
    int r = error_no_memory(e, "packing", DEFLATE_STATE);
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, WINDOW + wrap, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
        r = pack_in(&z, deflateBound(&z, size), share, ret, e);
        deflateEnd(&z);
    }
    memory_give(share, DEFLATE_STATE);
    return r;
}
