// Reads the backend's options: [LIBRARY][,compatible=FILE][,dumps=FOLDER]. A comma separates, so
// paths with commas cannot be given. The struct has room for paths of fixed length; longer ones are
// refused, not cut.
#include "npu/rknnrt/rknnrt_options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define COMPATIBLE "/proc/device-tree/compatible"

// Copies a path, if it fits.
static int take_path(const char *value, char *ret, size_t size, struct error *e)
{
    if (strlen(value) < size) {
        snprintf(ret, size, "%s", value);
        return 0;
    }
    return error_set(e, STATUS_PARAM_INVALID, "backend vendor: a path of %zu bytes, at most %zu",
                     strlen(value), size - 1);
}

// One KEY=VALUE.
static int read_word(struct vendor_options *o, const char *word, struct error *e)
{
    const struct {
        const char *key;
        char *value;
        size_t size;
    } keys[] = {{"compatible=", o->compatible, sizeof o->compatible},
                {"dumps=", o->dumps, sizeof o->dumps}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i].key);
        if (strncmp(word, keys[i].key, n) == 0)
            return take_path(word + n, keys[i].value, keys[i].size, e);
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "backend vendor: option \"%s\" is not compatible=FILE or dumps=FOLDER", word);
}

int vendor_options_parse(const char *text, struct vendor_options *ret, struct error *e)
{
    struct vendor_options o = {.compatible = COMPATIBLE};
    cleanup(free_p) char *copy = strdup(text);
    char *rest = copy;
    if (!copy)
        return error_no_memory(e, "options", strlen(text));
    int r = take_path(strsep(&rest, ","), o.library, sizeof o.library, e);
    while (r == 0 && rest)
        r = read_word(&o, strsep(&rest, ","), e);
    if (r == 0)
        *ret = o;
    return r;
}
