// Words of the library's errors, for people who know commands but not the API.
#include "tools/ui/rknn_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rknnd.h"

// Drops the leading "rknn_init: ".
static const char *without_function(const char *words)
{
    size_t n = strspn(words, "abcdefghijklmnopqrstuvwxyz_");
    return strncmp(words, "rknn", 4) == 0 && strncmp(words + n, ": ", 2) == 0 ? words + n + 2
                                                                              : words;
}

int rknn_error_set(struct error *e, int code, const char *format, ...)
{
    char context[sizeof e->text / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    const char *words = without_function(rknnd_last_error());
    if (*words)
        error_set(e, status_from_peer(code), "%s", words);
    else
        error_set(e, status_from_peer(code), "failed with code %d", code);
    return *context ? error_prefix(e, "%s", context) : e->code;
}

// The library may have put "model NAME: " in front already, without the folder.
int rknn_error_model(struct error *e, int code, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    rknn_error_set(e, code, "%s", "");
    char *words = e->text;
    if (strncmp(words, "model ", 6) == 0 && strncmp(words + 6, name, length) == 0 &&
        strncmp(words + 6 + length, ": ", 2) == 0)
        memmove(words, words + 8 + length, strlen(words + 8 + length) + 1);
    return error_prefix(e, "model %s", path);
}
