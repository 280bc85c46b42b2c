#include "kserve/request/json_escapes.h"

#include <string.h>

#define ESCAPE 6 // bytes of \uXXXX

// What \uXXXX at `text` says; -1: there is none.
static int code_of(const uint8_t *text, size_t size)
{
    int code = 0;
    if (size < ESCAPE || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (unsigned i = 2; i < ESCAPE; i++) {
        uint8_t c = text[i], low = c | 0x20;
        int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static int is_first(int code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static int is_second(int code)
{
    return code >= 0xdc00 && code < 0xe000;
}

int json_escapes_check(const uint8_t *text, size_t size, struct error *e)
{
    const uint8_t *end = text + size, *at = text;
    while (at < end && (at = memchr(at, '\\', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at), n = 2;
        int code = code_of(at, left);
        if (is_first(code) && is_second(code_of(at + ESCAPE, left - ESCAPE)))
            n = 2 * ESCAPE;
        else if (is_first(code) || is_second(code))
            return error_set(e, STATUS_PARAM_INVALID, "byte %zu: \\u%04x is half of a character",
                             (size_t)(at - text), (unsigned)code);
        at += n < left ? n : left;
    }
    return 0;
}
