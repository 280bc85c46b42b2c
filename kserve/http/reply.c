// A body grows as it is written, and nobody checks each write: what found no memory is remembered,
// and what is sent in the end is either the whole body or words that say what was missing. Large
// bodies are paid from a share that all requests have in common, before the memory is taken.
#include "kserve/http/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text/text.h"

#define SMALL 16384 // bytes

#define LEAST 512 // bytes: of pieces, an answer is put together without moving it

void reply_done(struct reply *r)
{
    free(r->body);
    memory_give(r->share, r->taken);
    *r = (struct reply){.share = r->share};
}

struct bytes reply_bytes(const struct reply *r)
{
    static const char none[] = "{\"error\":\"there is no memory to say what is wrong\"}";
    return r->no_memory ? (struct bytes){(const uint8_t *)none, sizeof none - 1}
                        : (struct bytes){(const uint8_t *)r->body, r->size};
}

void reply_trim(struct reply *r)
{
    uint64_t needed = r->room > SMALL ? r->room : 0;
    if (r->taken <= needed)
        return;
    memory_give(r->share, r->taken - needed);
    r->taken = needed;
}

void reply_replace(struct reply *r, void *body, size_t size)
{
    free(r->body);
    r->body = body;
    r->size = r->room = size;
    reply_trim(r);
}

// Small ones, as those that say that there is no memory, are always there.
static bool pay(struct reply *r, size_t room)
{
    if (room <= r->taken || room <= SMALL)
        return true;
    if (!memory_take(r->share, room - r->taken, MEMORY_SOON_MS))
        return false;
    r->taken = room;
    return true;
}

static bool grow(struct reply *r, size_t need)
{
    size_t room = array_next_room(r->room, need, SIZE_MAX, 1);
    return room && pay(r, room) && array_reserve(r->body, r->room, room, "an answer", NULL) == 0;
}

void reply_add(struct reply *r, const void *data, size_t n)
{
    if (r->no_memory || n == 0)
        return;
    if (r->size + n > r->room && !grow(r, r->size + n)) {
        r->no_memory = true;
        return;
    }
    memcpy(r->body + r->size, data, n);
    r->size += n;
}

void reply_print(struct reply *r, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n > 0)
        reply_add(r, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void reply_text(struct reply *r, const char *text)
{
    reply_add(r, text, strlen(text));
}

// What vsnprintf() takes for the same is seen in profiles of small requests.
void reply_number(struct reply *r, uint64_t n)
{
    char text[20], *at = text + sizeof text;
    do
        *--at = (char)('0' + n % 10);
    while (n /= 10);
    reply_add(r, at, (size_t)(text + sizeof text - at));
}

// Bytes that stand in a JSON string as they are, and need no look at what they are.
static size_t plain_size(const char *text)
{
    size_t n = 0;
    while (text[n] >= ' ' && text[n] <= '~' && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

void reply_quote(struct reply *r, const char *text)
{
    reply_add(r, "\"", 1);
    while (*text) {
        uint32_t code;
        size_t plain = plain_size(text), n = plain ? plain : text_character(text, &code);
        if (plain)
            reply_add(r, text, plain);
        else if (n == 0)
            reply_add(r, "?", 1);
        else if (code < 0x20)
            reply_print(r, "\\u%04x", code);
        else if (code == '"' || code == '\\')
            reply_print(r, "\\%c", (char)code);
        else
            reply_add(r, text, n);
        text += n ? n : 1;
    }
    reply_add(r, "\"", 1);
}

void reply_fail(struct reply *r, unsigned code, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reply_done(r);
    r->code = code;
    r->retry_soon = code == 503;
    reply_print(r, "{\"error\":");
    reply_quote(r, text);
    reply_print(r, "}");
}

void reply_fail_with(struct reply *r, const struct error *e)
{
    unsigned code = 500;
    switch (e->code) {
    case STATUS_PARAM_INVALID:
    case STATUS_INPUT_INVALID:
        code = 400;
        break;
    case STATUS_DEVICE_UNAVAILABLE:
    case STATUS_MALLOC_FAIL:
        code = 503;
        break;
    case STATUS_TIMEOUT:
        code = 504;
        break;
    default:
        break;
    }
    reply_fail(r, code, "%s", e->text);
}
