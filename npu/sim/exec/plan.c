// Compiles a graph into a plan: per node an operator, its prepared step and its scratch need, then
// the memory plan. Nodes are in executable order already; the readers see to that. Runs when a
// model is loaded or a shape set is first used; the plan is read-only afterwards and shared by
// runs.
#include "npu/sim/exec/plan.h"

#include "npu/sim/exec/dnn.h"
#include "npu/sim/exec/memory_plan.h"
#include "npu/sim/exec/ops.h"

// Kernels hold a constant in up to 16 times its bytes (small ones are padded), and tables of their
// own.
#define MEMORY_PER_BYTE 16
#define MEMORY_PER_NODE (1 << 16)
#define MEMORY_MIN      (1 << 26)

// Most kernels read input 0 from the arena. Nodes of constants only were computed by the reader
// (constant folding), so few operators have to support a constant there (on_constant).
static int plan_check_first(const struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    if (s->node->op == GRAPH_CUSTOM || s->node->op == GRAPH_PROGRAM)
        return 0;
    if (!x || !step_output(s, 0))
        return step_refuse(s, e, "its input or output is missing");
    if (x->constant && !s->op->on_constant)
        return step_refuse(s, e, "its input %s is a constant", x->name);
    return 0;
}

// Quantized ONNX models have kernels of their own, which round like ONNX Runtime (rounds_before_zp)
// and not like the chips.
static const struct op *plan_choose(const struct graph *g, const struct graph_node *n)
{
    bool onnx = n->n_outputs && n->outputs[0] >= 0 && g->tensors[n->outputs[0]].rounds_before_zp;
    static const struct {
        bool (*fits)(const struct graph *g, const struct graph_node *n);
        const struct op *op;
    } instead[] = {
        {op_attention_fits, &op_attention}, {op_lrn_fits, &op_lrn},
        {op_recurrent_fits, &op_recurrent}, {op_choose_fits, &op_choose},
        {op_reduce_fits, &op_reduce},       {op_quantize_bytes_fits, &op_quantize_bytes},
        {op_trilu_fits, &op_trilu},         {op_arcs_fits, &op_arcs},
        {op_cast_fits, &op_cast},           {op_index_fits, &op_index},
        {op_linear_fits, &op_linear},
    };
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (instead[i].fits(g, n))
            return instead[i].op;
    return onnx && ops_ort_int8[n->op] ? ops_ort_int8[n->op] : ops[n->op];
}

static int plan_prepare_step(struct step *s, struct error *e)
{
    int r = plan_check_first(s, e);
    return r < 0 ? r : s->op->prepare(s, e);
}

// A node that its operator refuses is done by its own register program, if it can be. Whatever the
// refusal has left behind is undone.
static int plan_prepare_program(struct step *s, uint32_t n_calls, struct error *e)
{
    struct error neither;
    struct bytes why = {(const uint8_t *)(e ? e->text : ""), e ? strlen(e->text) : 0};
    if (!s->plan->graph->programs || !s->node->program || s->op == &op_program)
        return e ? e->code : STATUS_MODEL_INVALID;
    if (s->op->done && s->state)
        s->op->done(s);
    dnn_cut_calls(s->plan, n_calls);
    *s = (struct step){.plan = s->plan,
                       .op = &op_program,
                       .node = s->node,
                       .unread = pool_text(&s->plan->pool, why)};
    return s->op->prepare(s, &neither) < 0 ? STATUS_MODEL_INVALID : 0;
}

// Steps use the scratch memory one after the other, so the plan needs as much as the hungriest.
static int plan_prepare(struct plan *p, struct error *e)
{
    const struct graph *g = p->graph;
    p->steps = pool_alloc(&p->pool, g->n_nodes, sizeof *p->steps);
    if (!p->steps)
        return error_no_memory(e, "the plan", g->n_nodes * sizeof *p->steps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct step *s = &p->steps[p->n_steps++];
        *s = (struct step){.plan = p, .op = plan_choose(g, &g->nodes[i]), .node = &g->nodes[i]};
        uint32_t n_calls = dnn_count_calls(p);
        int r = plan_prepare_step(s, e);
        if (r == STATUS_MODEL_INVALID)
            r = plan_prepare_program(s, n_calls, e);
        if (r < 0)
            return r;
        if (s->scratch > p->scratch_size)
            p->scratch_size = s->scratch;
        if (step_before(s))
            s[-1].watcher = s;
    }
    return 0;
}

// Bounds what an untrusted file can make kernels allocate: a small file must not need gigabytes.
static uint64_t plan_memory_limit(const struct graph *g)
{
    uint64_t limit = MEMORY_MIN + (uint64_t)g->n_nodes * MEMORY_PER_NODE;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].constant)
            limit += MEMORY_PER_BYTE * (uint64_t)g->tensors[i].data.size;
    return limit;
}

int plan_init(struct plan *p, const struct graph *g, struct error *e)
{
    *p = (struct plan){.graph = g, .memory_limit = plan_memory_limit(g)};
    int r = dnn_calls_new(&p->calls, e);
    if (r == 0)
        r = plan_prepare(p, e);
    if (r == 0)
        r = memory_plan_make(p, e);
    if (r < 0)
        plan_done(p);
    return r;
}

void plan_done(struct plan *p)
{
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].op->done && p->steps[i].state)
            p->steps[i].op->done(&p->steps[i]);
    dnn_calls_free(p->calls);
    pool_done(&p->pool);
    *p = (struct plan){0};
}
