// A hash table from names of ONNX edges to tensors: open addressing with linear probing. Its size
// is a power of two and at least twice the number of names, so that it is never full. Names are not
// copied.
#include "npu/model/onnx/onnx_names.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    int32_t tensor;
};

struct onnx_names {
    const struct onnx_names *around;
    uint32_t mask, n;
    struct entry *entries;
};

#define FIRST_SIZE 64

int onnx_names_new(struct onnx_names **ret, const struct onnx_names *around, struct error *e)
{
    struct onnx_names *names = calloc(1, sizeof *names);
    struct entry *entries = calloc(FIRST_SIZE, sizeof *entries);
    if (!names || !entries) {
        free(names);
        free(entries);
        return error_no_memory(e, "the names", FIRST_SIZE * sizeof *entries);
    }
    *names = (struct onnx_names){.around = around, .mask = FIRST_SIZE - 1, .entries = entries};
    *ret = names;
    return 0;
}

void onnx_names_free(struct onnx_names *names)
{
    if (names)
        free(names->entries);
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
static struct entry *place(const struct onnx_names *names, const char *name)
{
    uint32_t at = hash(name) & names->mask;
    while (names->entries[at].name && strcmp(names->entries[at].name, name) != 0)
        at = (at + 1) & names->mask;
    return &names->entries[at];
}

bool onnx_names_has(const struct onnx_names *names, const char *name)
{
    return place(names, name)->name != NULL;
}

int32_t onnx_names_find(const struct onnx_names *names, const char *name)
{
    for (; names; names = names->around) {
        const struct entry *entry = place(names, name);
        if (entry->name)
            return entry->tensor;
    }
    return -1;
}

static int grow(struct onnx_names *names, struct error *e)
{
    struct onnx_names larger = {.mask = names->mask * 2 + 1};
    size_t size = (size_t)larger.mask + 1;
    larger.entries = names->mask < UINT32_MAX / 4 ? calloc(size, sizeof *larger.entries) : NULL;
    if (!larger.entries)
        return error_no_memory(e, "the names", size * sizeof *larger.entries);
    for (size_t i = 0; i <= names->mask; i++)
        if (names->entries[i].name)
            *place(&larger, names->entries[i].name) = names->entries[i];
    free(names->entries);
    names->entries = larger.entries;
    names->mask = larger.mask;
    return 0;
}

int onnx_names_set(struct onnx_names *names, const char *name, int32_t tensor, struct error *e)
{
    int r = names->n > names->mask / 2 ? grow(names, e) : 0;
    if (r < 0)
        return r;
    struct entry *entry = place(names, name);
    names->n += entry->name == NULL;
    *entry = (struct entry){name, tensor};
    return 0;
}
