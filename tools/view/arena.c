// A model's internal memory over time, from the memory plan in its description: each tensor has an
// offset, a size and a live range (first and last step). A line for each step:
//
//   12  name                       1.20 MiB |##..====....|
//                                            '#' written by this step, '=' kept, '.' free
#include "tools/view/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/format/csv.h"
#include "tools/format/format.h"

#define NAME_WIDTH    24
#define DEFAULT_WIDTH 100
#define MIN_WIDTH     10
#define LEFT_WIDTH    (4 + 2 + NAME_WIDTH + 2 + 9 + 2) // number, name, bytes, '|'

// A tensor in the arena: bytes, and its live range in steps, both ends included.
struct place {
    uint64_t offset, size;
    json_int_t from, to;
};

static uint64_t arena_number(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 ? (uint64_t)n : 0;
}

// Places within the arena; the size that it needs is *ret_size. Sums that overflow are skipped: the
// JSON is the server's.
static size_t read_places(json_t *list, struct place *places, uint64_t *ret_size)
{
    size_t i, n = 0;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        struct place p = {arena_number(item, "offset"), arena_number(item, "size"),
                          json_integer_value(json_object_get(item, "from")),
                          json_integer_value(json_object_get(item, "to"))};
        if (json_is_true(json_object_get(item, "outside")) || p.size > UINT64_MAX - p.offset)
            continue;
        if (p.offset + p.size > *ret_size)
            *ret_size = p.offset + p.size;
        places[n++] = p;
    }
    return n;
}

static int by_offset(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// One step's bar, and the bytes in use. The places are sorted by offset: `reach` is the end of what
// is counted, so that tensors that share memory count once.
static uint64_t fill_row(const struct place *places, size_t n, json_int_t step, uint64_t size,
                         char *bar, size_t width)
{
    uint64_t used = 0, reach = 0;
    double cell = (double)size / (double)width;
    memset(bar, '.', width);
    for (size_t i = 0; i < n; i++) {
        const struct place *p = &places[i];
        uint64_t begin = p->offset > reach ? p->offset : reach, end = p->offset + p->size;
        if (p->from > step || p->to < step)
            continue;
        size_t first = (size_t)((double)p->offset / cell);
        size_t last = (size_t)((double)end / cell + 0.999);
        for (size_t c = first; c < last && c < width; c++)
            bar[c] = p->from == step ? '#' : bar[c] == '#' ? '#' : '=';
        used += end > begin ? end - begin : 0;
        reach = end > reach ? end : reach;
    }
    return used;
}

// Cut at its start: names of a network's layers differ at their ends.
static void print_name(FILE *out, const char *name)
{
    size_t length = strlen(name);
    if (length > NAME_WIDTH)
        fprintf(out, "~%s", name + length - NAME_WIDTH + 1);
    else
        fprintf(out, "%-*s", NAME_WIDTH, length ? name : "-");
}

// `width` columns in all; the bar takes what number, name and size leave.
void arena_print(json_t *model, FILE *out, size_t width)
{
    json_t *list = json_object_get(model, "arena"), *step;
    size_t i, all = width ? width : DEFAULT_WIDTH;
    size_t bar_width = all > LEFT_WIDTH + MIN_WIDTH ? all - LEFT_WIDTH - 1 : MIN_WIDTH;
    uint64_t size = 0;
    cleanup(free_p) struct place *places = calloc(json_array_size(list) + 1, sizeof *places);
    cleanup(free_p) char *bar = calloc(bar_width + 1, 1);
    size_t n = places && bar ? read_places(list, places, &size) : 0;
    if (n == 0)
        return;
    qsort(places, n, sizeof *places, by_offset);
    json_array_foreach(json_object_get(model, "steps"), i, step)
    {
        struct format_buffer b;
        uint64_t used = fill_row(places, n, (json_int_t)i, size, bar, bar_width);
        const char *name = json_string_value(step);
        fprintf(out, "%4zu  ", i + 1);
        print_name(out, name ? name : "");
        fprintf(out, "  %9s |%s|\n", format_bytes(&b, used), bar);
    }
}

// Bytes in use for each step; the bar is only a byproduct here.
void arena_csv(json_t *model, FILE *out)
{
    json_t *list = json_object_get(model, "arena"), *step;
    size_t i;
    uint64_t size = 0;
    char bar[2];
    cleanup(free_p) struct place *places = calloc(json_array_size(list) + 1, sizeof *places);
    size_t n = places ? read_places(list, places, &size) : 0;
    if (n > 0)
        qsort(places, n, sizeof *places, by_offset);
    fputs("Layer,InternalInUse(bytes)\n", out);
    json_array_foreach(json_object_get(model, "steps"), i, step)
    {
        const char *name = json_string_value(step);
        char used[24];
        snprintf(used, sizeof used, "%llu",
                 (unsigned long long)fill_row(places, n, (json_int_t)i, size, bar, 1));
        csv_cell(out, name ? name : "", true, false);
        csv_cell(out, used, false, true);
    }
}
