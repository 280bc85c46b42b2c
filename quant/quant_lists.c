// What there is to know of tensors and nodes, for programs. A list is one block: its head, then its
// items, whose texts are the model's. What was compared is of another model once these change.
#include <stdlib.h>

#include "quant/calibrate/quant_mmse.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/quant.h"

// Programs step through a list by its stride, so each item tells its size by itself.
rknnd_list *quant_list_new(size_t n, size_t stride, struct error *e)
{
    rknnd_list *list = calloc(1, sizeof *list + n * stride);
    if (!list) {
        error_no_memory(e, "a list", n);
        return NULL;
    }
    *list = (rknnd_list){.struct_size = sizeof *list,
                         .n = (uint32_t)n,
                         .stride = (uint32_t)stride,
                         .items = list + 1};
    for (size_t i = 0; i < n; i++)
        *(uint32_t *)(void *)((char *)(list + 1) + i * stride) = (uint32_t)stride;
    return list;
}

// Where nothing was looked at, min is above max and there is no histogram; scale and range are
// there.
static void lists_fill_tensor(const struct rknnd_quant *q, uint32_t i, rknnd_quant_tensor *t)
{
    const struct quant_edge *edge = &q->index.edges[i];
    const struct observer *o = &q->seen[i];
    t->group = q->now.places[i].group;
    t->name = edge->name;
    t->node = edge->producer < 0 ? "" : quant_node_name(q->model.graph->node[edge->producer]);
    t->scale = q->layout.forms[t->group].scale;
    t->zp = q->layout.forms[t->group].zp;
    t->low = q->layout.ranges[t->group].low;
    t->high = q->layout.ranges[t->group].high;
    t->bits = q->now.places[i].bits;
    t->min = 1;
    if (!o->bins)
        return;
    t->min = o->min;
    t->max = o->max;
    t->n_bins = OBSERVER_BINS;
    t->bins = o->bins;
    t->bin_width = __builtin_ldexpf(1, o->exponent);
    t->error = quant_range_error(o, q->layout.forms[t->group]);
    struct quant_clipping c = quant_range_clipping(o, q->layout.ranges[t->group], t->scale);
    t->power = c.power;
    t->clipped = c.share;
    t->clip_error = c.error;
}

static rknnd_list *lists_tensors(const struct rknnd_quant *q, struct error *e)
{
    rknnd_list *list = quant_list_new(q->summary.n_tensors, sizeof(rknnd_quant_tensor), e);
    rknnd_quant_tensor *at = list ? (rknnd_quant_tensor *)(list + 1) : NULL;
    for (uint32_t i = 0; i < q->index.n && at; i++)
        if (q->now.places[i].quantized)
            lists_fill_tensor(q, i, at++);
    return list;
}

static rknnd_list *lists_nodes(const struct rknnd_quant *q, struct error *e)
{
    rknnd_list *list = quant_list_new(q->now.n_nodes, sizeof(rknnd_quant_node), e);
    rknnd_quant_node *at = list ? (rknnd_quant_node *)(list + 1) : NULL;
    for (uint32_t i = 0; i < q->now.n_nodes && at; i++, at++) {
        const Quant__Node *n = q->model.graph->node[i];
        at->quantized = q->now.kinds[i] != QUANT_NODE_FLOAT;
        at->name = quant_node_name(n);
        at->op = quant_text(n->op_type);
        at->output = quant_output(n, 0);
        at->reason = q->now.reasons[i] ? q->now.reasons[i] : "";
        at->type = at->quantized ? (rknnd_quant_type)q->now.bits[i] : RKNND_QUANT_FLOAT16;
        if (!q->noise)
            continue;
        at->noise = quant_noise_total(q->noise[i]);
        at->weight_noise = q->noise[i].weight;
        at->input_noise = q->noise[i].input;
        at->output_noise = q->noise[i].output;
    }
    return list;
}

// Both or none: the old ones stay when there is no memory.
int quant_lists_make(struct rknnd_quant *q, struct error *e)
{
    rknnd_list *nodes = lists_nodes(q, e);
    rknnd_list *tensors = nodes && q->calibrated ? lists_tensors(q, e) : NULL;
    if (!nodes || (q->calibrated && !tensors)) {
        free(nodes);
        return STATUS_MALLOC_FAIL;
    }
    free(q->nodes);
    free(q->tensors);
    free(q->layers);
    q->layers = NULL;
    q->nodes = nodes;
    q->tensors = tensors;
    return 0;
}
