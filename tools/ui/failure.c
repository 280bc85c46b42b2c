// Failures: set once where they happen, prefixed with context on the way up, printed once by
// main(). The text is in the struct, so that failing needs no memory.
#include "tools/ui/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rknn_api.h"

int failure_set(struct failure *f, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    f->code = code;
    return code;
}

// Prepends "context: ". Does nothing if the text begins with it already.
int failure_prefix(struct failure *f, const char *format, ...)
{
    char context[sizeof f->text], words[sizeof f->text];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(words, f->text, sizeof words);
    size_t length = strlen(context);
    if (strncmp(words, context, length) == 0 && strncmp(words + length, ": ", 2) == 0)
        return f->code; // the library has said it already
    // Cut where it does not fit: the context is worth more than the end of the words.
    int n = snprintf(f->text, sizeof f->text, "%.*s: ", (int)sizeof f->text / 2, context);
    snprintf(f->text + n, sizeof f->text - (size_t)n, "%.*s", (int)sizeof f->text - n - 1, words);
    return f->code;
}

// The exit code for one of the library's codes (listed in `rknnctl help`).
int failure_exit_code(int rknn_code)
{
    switch (rknn_code) {
    case RKNN_SUCC:
        return EXIT_OK;
    case RKNN_ERR_PARAM_INVALID: // what was typed: a server's URI, shapes, cores
        return EXIT_USAGE;
    case RKNN_ERR_DEVICE_UNAVAILABLE:
        return EXIT_UNREACHABLE;
    case RKNN_ERR_MODEL_INVALID:
    case RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL:
    case RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION:
    case RKNN_ERR_TARGET_PLATFORM_UNMATCH:
        return EXIT_MODEL;
    case RKNN_ERR_INPUT_INVALID:
        return EXIT_INPUT;
    default:
        return EXIT_RUNTIME;
    }
}

int failure_no_memory(struct failure *f)
{
    return failure_set(f, EXIT_RUNTIME, "out of memory");
}
