// Computes nodes of constants while a model is loaded, by the executor itself.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"
#include "npu/sim/exec/copy.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"

struct fold {
    struct graph g;
    struct graph_node node;
    struct plan plan;
    struct run run;
    int32_t *inputs, *outputs;
    uint32_t *ports;
};

static void fold_done(struct fold *f)
{
    run_done(&f->run);
    plan_done(&f->plan);
    graph_done(&f->g);
}

// A graph of this node alone, whose inputs are the constants.
static int make_graph(struct fold *f, const struct graph *from, const struct graph_node *n,
                      struct error *e)
{
    uint32_t n_all = n->n_inputs + n->n_outputs;
    struct graph *g = &f->g;
    g->tensors = pool_alloc(&g->pool, n_all, sizeof *g->tensors);
    f->inputs = pool_alloc(&g->pool, n_all, sizeof *f->inputs);
    f->ports = pool_alloc(&g->pool, n_all, sizeof *f->ports);
    if (!g->tensors || !f->inputs || !f->ports)
        return error_no_memory(e, "a constant", 0);
    f->outputs = f->inputs + n->n_inputs;
    f->node = *n;
    f->node.inputs = f->inputs;
    f->node.outputs = f->outputs;
    for (uint32_t i = 0; i < n_all; i++) {
        int32_t index = i < n->n_inputs ? n->inputs[i] : n->outputs[i - n->n_inputs];
        f->inputs[i] = index < 0 ? -1 : (int32_t)i;
        if (index >= 0)
            g->tensors[i] = from->tensors[index];
        // The first input moves, as operators expect it; others may have to be constants.
        if (i != 0 && i < n->n_inputs)
            continue;
        g->tensors[i].constant = false;
        g->tensors[i].channels_last = g->tensors[i].n_dims == 4;
    }
    g->n_tensors = n_all;
    g->nodes = &f->node;
    g->n_nodes = 1;
    g->inputs = f->ports;
    g->n_inputs = 1;
    return 0;
}

static void move_elements(const struct graph_tensor *to, void *dst, const struct graph_tensor *from,
                          const void *src)
{
    struct copy c;
    copy_init_whole(&c, to, from);
    copy_run(&c, dst, src);
}

static int take_output(struct onnx_lowering *l, struct fold *f, uint32_t i, int32_t to,
                       struct error *e)
{
    struct graph_tensor *t = &l->g->tensors[to];
    uint8_t *data = pool_alloc(&l->g->pool, t->size, 1);
    if (!data)
        return error_no_memory(e, "a constant", t->size);
    t->constant = true;
    t->channels_last = false;
    t->data = (struct bytes){data, t->size};
    int32_t own = f->outputs[i];
    move_elements(t, data, &f->g.tensors[own], run_tensor(&f->run, (uint32_t)own));
    return 0;
}

static int compute(struct onnx_lowering *l, struct fold *f, const struct graph_node *n,
                   struct error *e)
{
    const struct graph_tensor *x = &l->g->tensors[n->inputs[0]];
    int r = make_graph(f, l->g, n, e);
    if (r == 0)
        r = plan_init(&f->plan, &f->g, e);
    if (r == 0)
        r = run_init(&f->run, &f->plan, e);
    if (r < 0)
        return r;
    if (f->inputs[0] >= 0)
        move_elements(&f->g.tensors[0], run_tensor(&f->run, 0), x, x->data.data);
    r = run_steps(&f->run, e);
    for (uint32_t i = 0; i < n->n_outputs && r == 0; i++)
        if (n->outputs[i] >= 0)
            r = take_output(l, f, i, n->outputs[i], e);
    return r;
}

int onnx_fold(struct onnx_lowering *l, const struct graph_node *n, struct error *e)
{
    for (uint32_t i = 0; i < n->n_outputs; i++)
        l->folded += n->outputs[i] < 0 ? 0 : l->g->tensors[n->outputs[i]].size;
    if (l->folded > ONNX_FOLDED_MAX)
        return onnx_refuse(l, e, "its constants make up more than %llu MB",
                           (unsigned long long)(ONNX_FOLDED_MAX >> 20));
    struct fold f = {0};
    int r = compute(l, &f, n, e);
    fold_done(&f);
    return r < 0 && e && e->code == STATUS_FAIL ? error_set(e, STATUS_MODEL_INVALID, "%s", e->text)
                                                : r;
}
