// Orders layers for --sort. Numbers descend, texts ascend, ties keep the order of execution.
#include <stdlib.h>
#include <string.h>

#include "tools/view/layers.h"

static double no_key(const struct layer_times *t, uint32_t i)
{
    (void)t, (void)i;
    return 0;
}

static double time_key(const struct layer_times *t, uint32_t i)
{
    return (double)layers_median_us(t, i);
}

static double estimate_key(const struct layer_times *t, uint32_t i)
{
    return (double)rknnd_layer_at(t->layers, i)->estimate_ns;
}

static double macs_key(const struct layer_times *t, uint32_t i)
{
    return (double)rknnd_layer_at(t->layers, i)->macs;
}

// Layers without MACs come last.
static double usage_key(const struct layer_times *t, uint32_t i)
{
    const rknnd_layer *l = rknnd_layer_at(t->layers, i);
    return l->total_cycles ? (double)l->mac_cycles / (double)l->total_cycles : 0;
}

static double bytes_key(const struct layer_times *t, uint32_t i)
{
    const rknnd_layer *l = rknnd_layer_at(t->layers, i);
    return (double)l->read_bytes + (double)l->write_bytes;
}

static const char *op_text(const rknnd_layer *l)
{
    return l->op;
}

static const char *name_text(const rknnd_layer *l)
{
    return l->name;
}

// Either `key` (numbers, descending) or `text` (ascending). "execution" has the same key for all:
// ties keep the order.
static const struct sort {
    const char *name;
    double (*key)(const struct layer_times *t, uint32_t i);
    const char *(*text)(const rknnd_layer *l);
    bool estimates; // needs them
} sorts[] = {
    {"execution", no_key, NULL, false},     {"time", time_key, NULL, false},
    {"estimate", estimate_key, NULL, true}, {"macs", macs_key, NULL, false},
    {"usage", usage_key, NULL, false},      {"bytes", bytes_key, NULL, false},
    {"op", NULL, op_text, false},           {"name", NULL, name_text, false},
};

static const struct sort *find_key(const char *by)
{
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++)
        if (strcmp(sorts[i].name, by) == 0)
            return &sorts[i];
    return NULL;
}

int layers_check_sort(const char *by, struct error *e)
{
    return find_key(by)
               ? 0
               : error_set(e, STATUS_PARAM_INVALID, "--sort %s: it is one of %s", by, LAYERS_SORTS);
}

struct sorting {
    const struct layer_times *times;
    const struct sort *sort;
};

// For qsort_r(), of indices; the last term makes the order total, since qsort is not stable.
static int compare_layers(const void *a, const void *b, void *user)
{
    const struct sorting *s = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = 0;
    if (s->sort->text) {
        order = strcmp(s->sort->text(rknnd_layer_at(s->times->layers, x)),
                       s->sort->text(rknnd_layer_at(s->times->layers, y)));
    } else {
        double p = s->sort->key(s->times, x), q = s->sort->key(s->times, y);
        order = (p < q) - (p > q);
    }
    return order ? order : (x > y) - (x < y);
}

// Sorting by estimates is refused where there are none: all keys would be 0, and the order would
// look like one.
int layers_sort(const struct layer_times *t, const char *by, uint32_t **ret, struct error *e)
{
    struct sorting s = {t, find_key(by)};
    int r = layers_check_sort(by, e);
    if (r)
        return r;
    if (s.sort->estimates && !*t->timing.chip)
        return error_set(e, STATUS_PARAM_INVALID, "--sort %s: this device gives none; --sort time",
                         by);
    uint32_t *order = calloc((size_t)t->layers->n + 1, sizeof *order);
    if (!order)
        return error_no_memory(e, "layers", 0);
    for (uint32_t i = 0; i < t->layers->n; i++)
        order[i] = i;
    qsort_r(order, t->layers->n, sizeof *order, compare_layers, &s);
    *ret = order;
    return 0;
}
