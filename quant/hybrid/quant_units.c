// A unit is what it makes sense to decide about at once. Were a product and its activation decided
// apart, half of the tries would be of models in which the one is float and the tensor between both
// still stored in 8 bits: as wrong as before, and slower.
#include "quant/hybrid/quant_units.h"

#include <stdlib.h>

#include "quant/hybrid/quant_noise.h"

// The node that makes all that node i computes with, and whose result nobody else reads; -1: there
// is none.
static int32_t units_before(const struct rknnd_quant *q, uint32_t i)
{
    const Quant__Node *n = q->model.graph->node[i];
    int32_t before = -1;
    for (size_t k = 0; k < n->n_input; k++) {
        const struct quant_edge *in = quant_index_find(&q->index, quant_input(n, k));
        if (!in || in->constant)
            continue;
        if (before >= 0 || in->producer < 0 || quant_index_only_reader(&q->index, in) < 0)
            return -1;
        before = in->producer;
    }
    return before;
}

// The unit that ends with the node; NULL: none has room behind it.
static struct quant_unit *units_find(struct quant_unit *units, uint32_t n, int32_t node)
{
    for (uint32_t i = 0; i < n; i++)
        if (units[i].n == 1 && (int32_t)units[i].nodes[0] == node && units[i].is_product)
            return &units[i];
    return NULL;
}

int quant_units_make(const struct rknnd_quant *q, struct quant_unit **ret, uint32_t *ret_n,
                     struct error *e)
{
    struct quant_unit *units = calloc((size_t)q->plan.n_nodes + 1, sizeof *units);
    uint32_t n = 0;
    if (!units)
        return error_no_memory(e, "the nodes", q->plan.n_nodes);
    for (uint32_t i = 0; i < q->plan.n_nodes; i++) {
        uint8_t kind = q->plan.kinds[i];
        if (kind != QUANT_NODE_PRODUCT && kind != QUANT_NODE_VALUE)
            continue;
        struct quant_unit *unit =
            kind == QUANT_NODE_VALUE ? units_find(units, n, units_before(q, i)) : NULL;
        if (!unit)
            unit = &units[n++];
        unit->is_product |= kind == QUANT_NODE_PRODUCT;
        unit->nodes[unit->n++] = i;
        unit->noise += quant_noise_total(q->noise[i]);
    }
    *ret = units;
    *ret_n = n;
    return 0;
}

static int units_order(const void *a, const void *b)
{
    const struct quant_unit *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    if (x->noise != y->noise)
        return x->noise < y->noise ? 1 : -1;
    return (x->nodes[0] > y->nodes[0]) - (x->nodes[0] < y->nodes[0]);
}

void quant_units_sort(struct quant_unit *units, uint32_t n)
{
    qsort(units, n, sizeof *units, units_order);
    uint32_t left = n;
    while (left-- > 0 && !units[left].is_product)
        ;
    for (uint32_t i = left; i + 1 < n; i++) {
        struct quant_unit last = units[i];
        units[i] = units[i + 1];
        units[i + 1] = last;
    }
}
