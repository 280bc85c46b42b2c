// A heap of as many as are wanted, whose root is the one that a better one takes the place of: an
// output of a million numbers is read once, and needs no copy of it in order. Values are held
// against each other as doubles, which tells all but whole numbers beyond 2^53 apart; they are
// printed from what the output has.
#include "kserve/classes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_ROOM 400 // of a number with six digits behind its point, and its place

struct found {
    double value;
    uint64_t at;
};

uint32_t classes_of_row(const struct classes *c)
{
    return c->n < c->most ? (uint32_t)c->n : c->most;
}

// A byte of a name may take six in JSON.
uint64_t classes_room(const struct classes *c)
{
    return (uint64_t)c->rows * classes_of_row(c) * (64 + 6 * (uint64_t)c->labels->longest);
}

// What is no number comes last; of equal ones the first goes first.
static bool goes_before(const struct found *a, const struct found *b)
{
    if (isnan(a->value) || isnan(b->value))
        return isnan(a->value) == isnan(b->value) ? a->at < b->at : isnan(b->value);
    return a->value == b->value ? a->at < b->at : a->value > b->value;
}

static int compare_found(const void *x, const void *y)
{
    return goes_before(x, y) ? -1 : 1;
}

// A heap whose root is the first to leave.
static void sink(struct found *heap, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t worst = i;
        for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
            if (goes_before(&heap[worst], &heap[k]))
                worst = k;
        if (worst == i)
            return;
        struct found f = heap[i];
        heap[i] = heap[worst];
        heap[worst] = f;
        i = worst;
    }
}

// The heap is made once it is full; what comes behind that is held against its root.
static void find_largest(const struct classes *c, uint32_t row, struct found *heap, uint32_t k)
{
    const uint8_t *data = c->data + row * c->n * c->type->size;
    for (uint64_t i = 0; i < c->n; i++) {
        const struct found f = {datatype_value(c->type, data + i * c->type->size), i};
        if (i < k)
            heap[i] = f;
        for (uint32_t p = k / 2; i + 1 == k && p-- > 0;)
            sink(heap, k, p);
        if (i >= k && goes_before(&f, &heap[0])) {
            heap[0] = f;
            sink(heap, k, 0);
        }
    }
    qsort(heap, k, sizeof *heap, compare_found);
}

// As Triton does: six digits behind the point for every real type, whole numbers as they are.
static size_t print_value(const struct classes *c, uint32_t row, const struct found *f, char *to)
{
    const uint8_t *element = c->data + (row * c->n + f->at) * c->type->size;
    size_t n = c->type->real ? (size_t)snprintf(to, VALUE_ROOM, "%f", f->value)
                             : datatype_print(c->type, element, to);
    return n + (size_t)snprintf(to + n, VALUE_ROOM - n, ":%" PRIu64, f->at);
}

// A name may be of any length, so it is put together in memory of its own.
static void add_one(const struct classes *c, uint32_t row, const struct found *f, bool binary,
                    struct reply *r)
{
    char text[VALUE_ROOM];
    size_t n = print_value(c, row, f, text);
    const char *name = f->at < UINT32_MAX ? labels_name(c->labels, (uint32_t)f->at) : "";
    size_t more = strlen(name);
    char *all = malloc(n + 1 + more + 1);
    if (!all) {
        r->no_memory = true;
        return;
    }
    memcpy(all, text, n);
    if (more > 0) {
        all[n++] = ':';
        memcpy(all + n, name, more);
        n += more;
    }
    all[n] = 0;
    const uint32_t size = (uint32_t)n;
    if (binary) {
        reply_add(r, &size, sizeof size); // little-endian, as all that this runs on
        reply_add(r, all, n);
    } else {
        reply_quote(r, all);
    }
    free(all);
}

void classes_add(const struct classes *c, bool binary, struct reply *r)
{
    uint32_t k = classes_of_row(c);
    struct found *heap = calloc(k + 1, sizeof *heap);
    if (!heap) {
        r->no_memory = true;
        return;
    }
    for (uint32_t row = 0; row < c->rows; row++) {
        find_largest(c, row, heap, k);
        for (uint32_t i = 0; i < k && !r->no_memory; i++) {
            if (!binary && (row > 0 || i > 0))
                reply_text(r, ",");
            add_one(c, row, &heap[i], binary, r);
        }
    }
    free(heap);
}
