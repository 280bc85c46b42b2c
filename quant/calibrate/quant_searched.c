// Small weights are parts of the work, each for a thread; of a large one its outputs are.
#include "quant/calibrate/quant_searched.h"

#include <stdlib.h>

#include "quant/model/quant_constant.h"
#include "quant/plan/quant_weights.h"
#include "quant/quant_parallel.h"

#define LARGE ((size_t)1 << 16) // elements

static bool searched_is_searched(const struct rknnd_quant *q, uint32_t node)
{
    return q->plan.kinds[node] == QUANT_NODE_PRODUCT && q->plan.bits[node] == 8;
}

// Where there is one scale for all outputs, they are not searched apart.
static bool searched_is_large(const struct rknnd_quant *q, uint32_t node)
{
    const Quant__Node *n = q->model.graph->node[node];
    return !q->per_layer && quant_constant_count(quant_index_weight(&q->index, n, 1)) >= LARGE;
}

static int searched_node(struct rknnd_quant *q, uint32_t node, uint32_t n_threads, struct error *e)
{
    const struct quant_weight_options options = {.per_channel = !q->per_layer,
                                                 .search = true,
                                                 .store = quant_store_of(q, 8),
                                                 .n_threads = n_threads};
    const Quant__Node *n = q->model.graph->node[node];
    int r = quant_weights_search(&q->index, n, &options, &q->searched[node], e);
    return r < 0 ? error_prefix(e, "node %s", quant_node_name(n)) : 0;
}

static int searched_small(void *user, uint32_t node, struct error *e)
{
    struct rknnd_quant *q = user;
    bool here = searched_is_searched(q, node) && !searched_is_large(q, node);
    return here ? searched_node(q, node, 1, e) : 0;
}

int quant_searched_make(struct rknnd_quant *q, struct error *e)
{
    if (q->algorithm != QUANT_ALGORITHM_MMSE)
        return 0;
    q->searched = calloc((size_t)q->plan.n_nodes + 1, sizeof *q->searched);
    if (!q->searched)
        return error_no_memory(e, "scales", q->plan.n_nodes);
    int r = quant_parallel(q->n_clients, q->plan.n_nodes, searched_small, q, e);
    for (uint32_t i = 0; i < q->plan.n_nodes && r == 0; i++)
        if (searched_is_searched(q, i) && searched_is_large(q, i))
            r = searched_node(q, i, q->n_clients, e);
    return r;
}

void quant_searched_done(struct rknnd_quant *q)
{
    for (uint32_t i = 0; q->searched && i < q->plan.n_nodes; i++)
        free(q->searched[i]);
    free(q->searched);
    q->searched = NULL;
}
