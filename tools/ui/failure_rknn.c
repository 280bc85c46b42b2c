// Failures of the library, in its own words (rknnd_last_error(), which is per thread: call these
// right after the failing call, on its thread).
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rknnd.h"
#include "tools/ui/failure.h"

// Drops the leading "rknn_init: ": users of commands do not know the API.
static const char *without_function(const char *words)
{
    size_t n = strspn(words, "abcdefghijklmnopqrstuvwxyz_");
    return strncmp(words, "rknn", 4) == 0 && strncmp(words + n, ": ", 2) == 0 ? words + n + 2
                                                                              : words;
}

int failure_rknn(struct failure *f, int rknn_code, const char *format, ...)
{
    char context[sizeof f->text / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    const char *words = without_function(rknnd_last_error());
    if (*words)
        failure_set(f, failure_exit_code(rknn_code), "%s", words);
    else
        failure_set(f, failure_exit_code(rknn_code), "failed with code %d", rknn_code);
    return *context ? failure_prefix(f, "%s", context) : f->code;
}

// Names the model once, by its path: the library may have put "model NAME: " in front already.
int failure_model(struct failure *f, int rknn_code, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    failure_rknn(f, rknn_code, "%s", "");
    char *words = f->text;
    if (strncmp(words, "model ", 6) == 0 && strncmp(words + 6, name, length) == 0 &&
        strncmp(words + 6 + length, ": ", 2) == 0)
        memmove(words, words + 8 + length, strlen(words + 8 + length) + 1);
    return failure_prefix(f, "model %s", path);
}
