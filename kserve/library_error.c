#include "kserve/library_error.h"

#include <string.h>

#include "rknnd.h"

// The library's words begin with the function that failed, which a client over HTTP has not called.
int library_error(struct error *e, int code)
{
    const char *words = rknnd_last_error();
    size_t n = strspn(words, "abcdefghijklmnopqrstuvwxyz_");
    if (strncmp(words, "rknn", 4) == 0 && strncmp(words + n, ": ", 2) == 0)
        words += n + 2; // the function's name says nothing here
    return error_set(e, status_from_peer(code), "%s", words);
}
