#include "npu/open/provider/device_options.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define COMPATIBLE "/proc/device-tree/compatible"

static int take_path(const char *value, char *ret, size_t size, struct error *e)
{
    if (strlen(value) >= size)
        return error_set(e, STATUS_PARAM_INVALID, "backend open: a path of %zu bytes, at most %zu",
                         strlen(value), size - 1);
    snprintf(ret, size, "%s", value);
    return 0;
}

static int read_word(struct device_options *o, const char *word, struct error *e)
{
    const struct {
        const char *key;
        char *value;
        size_t size;
    } keys[] = {{"compatible=", o->compatible, sizeof o->compatible},
                {"heap=", o->heap, sizeof o->heap}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i].key);
        if (strncmp(word, keys[i].key, n) == 0)
            return take_path(word + n, keys[i].value, keys[i].size, e);
    }
    if (strcmp(word, "sram") == 0) {
        o->sram = true;
        return 0;
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "backend open: option \"%.100s\" is not compatible=FILE, heap=BUFFERS or sram",
                     word);
}

int device_options_parse(const char *text, struct device_options *ret, struct error *e)
{
    struct device_options o = {.compatible = COMPATIBLE, .heap = "dma_heap"};
    cleanup(free_p) char *copy = strdup(text);
    char *rest = copy;
    if (!copy)
        return error_no_memory(e, "options", strlen(text));
    int s = take_path(strsep(&rest, ","), o.device, sizeof o.device, e);
    while (s == 0 && rest)
        s = read_word(&o, strsep(&rest, ","), e);
    if (s == 0)
        *ret = o;
    return s;
}
