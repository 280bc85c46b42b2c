#include "kserve/http/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text/text.h"

void reply_done(struct reply *r)
{
    free(r->body);
    *r = (struct reply){0};
}

void reply_add(struct reply *r, const void *data, size_t n)
{
    if (r->no_memory || n == 0)
        return;
    if (array_reserve(r->body, r->room, r->size + n, "an answer", NULL) < 0) {
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

void reply_quote(struct reply *r, const char *text)
{
    reply_add(r, "\"", 1);
    while (*text) {
        uint32_t code;
        size_t n = text_character(text, &code);
        if (n == 0)
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
