// A hash table from names of ONNX edges to tensors: open addressing with linear probing. Its size
// is a power of two and at least twice the number of names, so that it is never full and need not
// grow. Names are not copied.
#include "npu/model/onnx/onnx_names.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    int32_t tensor;
};

struct onnx_names {
    uint32_t mask;
    struct entry entries[];
};

int onnx_names_new(struct onnx_names **ret, uint32_t n, struct error *e)
{
    uint64_t size = 16;
    while (size < (uint64_t)n * 2)
        size *= 2;
    struct onnx_names *names = calloc(1, sizeof *names + size * sizeof(struct entry));
    if (!names)
        return error_no_memory(e, "the names", size * sizeof(struct entry));
    names->mask = (uint32_t)size - 1;
    *ret = names;
    return 0;
}

void onnx_names_free(struct onnx_names *names)
{
    free(names);
}

// FNV-1a.
static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}

// The entry of the name, or the free one where it belongs.
static uint32_t place(const struct onnx_names *names, const char *name)
{
    uint32_t at = hash(name) & names->mask;
    while (names->entries[at].name && strcmp(names->entries[at].name, name) != 0)
        at = (at + 1) & names->mask;
    return at;
}

int32_t onnx_names_find(const struct onnx_names *names, const char *name)
{
    const struct entry *entry = &names->entries[place(names, name)];
    return entry->name ? entry->tensor : -1;
}

void onnx_names_set(struct onnx_names *names, const char *name, int32_t tensor)
{
    names->entries[place(names, name)] = (struct entry){name, tensor};
}
