// Errors and status codes. A struct error belongs to its caller and is filled once, where something
// fails; callers add context by error_prefix(). All functions accept NULL for "not interested" and
// return the code, so that "return error_set(...)" is the usual form.
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *status_text(int code)
{
    switch (code) {
#define X(number, name, text)                                                                      \
    case number:                                                                                   \
        return text;
        STATUS_LIST(X)
#undef X
    default:
        return "unknown status";
    }
}

// A status that came over a socket or from a callback is untrusted: unknown ones become
// STATUS_FAIL, so that nobody mistakes a positive number for success.
int status_from_peer(int code)
{
    return code < 0 && code >= STATUS_TARGET_PLATFORM_UNMATCH ? code : STATUS_FAIL;
}

static void error_set_words(struct error *e, int code, const char *format, va_list args)
{
    e->code = code;
    vsnprintf(e->text, sizeof e->text, format, args);
}

int error_set(struct error *e, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (e)
        error_set_words(e, code, format, args);
    va_end(args);
    return code;
}

// As error_set(), then ": " and the words for an errno value. Text that is too long is cut.
int error_set_errno(struct error *e, int code, int errno_value, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (e) {
        error_set_words(e, code, format, args);
        size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof e->text - used, ": %s", strerror(errno_value));
    }
    va_end(args);
    return code;
}

int error_recode(struct error *e, int code)
{
    if (e)
        e->code = code;
    return code;
}

// "context: old text"; the code stays. Of a long context the beginning stays, so that there is room
// for what went wrong.
int error_prefix(struct error *e, const char *format, ...)
{
    if (!e)
        return STATUS_FAIL;
    char context[sizeof e->text / 2], old[sizeof e->text];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    size_t length = strlen(context);
    if (strncmp(e->text, context, length) == 0 && strncmp(e->text + length, ": ", 2) == 0)
        return e->code;
    memcpy(old, e->text, sizeof old);
    snprintf(e->text, sizeof e->text, "%s: %s", context, old);
    return e->code;
}

// bytes 0: not known.
int error_no_memory(struct error *e, const char *what, uint64_t bytes)
{
    if (bytes == 0)
        return error_set(e, STATUS_MALLOC_FAIL, "no memory for %s", what);
    return error_set(e, STATUS_MALLOC_FAIL, "no memory for %s (%llu bytes)", what,
                     (unsigned long long)bytes);
}
