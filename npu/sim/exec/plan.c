// Compiles graphs and runs them.
#include "npu/sim/exec/plan.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "npu/sim/exec/dnn.h"
#include "npu/sim/exec/memory_plan.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/rows.h"
#include "npu/sim/sim_custom.h"
#include "npu/sim/sim_tap.h"
#include "npu/stop.h"

#define ALIGNMENT   64
#define SCRATCH_MAX ((uint64_t)1 << 32)

// Kernels hold a constant in up to 16 times its bytes (small ones are padded), and tables of their
// own.
#define MEMORY_PER_BYTE 16
#define MEMORY_PER_NODE (1 << 16)
#define MEMORY_LEAST    (1 << 26)

// ---- compiling ----

// Operators on elements take constants anywhere; all others work on what the run computes.
static int check_first(const struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    if (s->node->op == GRAPH_CUSTOM)
        return 0;
    if (!x || !step_output(s, 0))
        return step_refuse(s, e, "its input or output is missing");
    if (x->constant && s->op != &op_binary && s->op != &op_unary && s->op != &op_ref &&
        s->op != &op_mat_mul && s->op != &op_steps_binary)
        return step_refuse(s, e, "its input %s is a constant", x->name);
    return 0;
}

static const struct op *choose(const struct graph *g, const struct graph_node *n)
{
    bool steps = n->n_outputs && n->outputs[0] >= 0 && g->tensors[n->outputs[0]].rounds_before_zp;
    return steps && ops_of_steps[n->op] ? ops_of_steps[n->op] : ops[n->op];
}

static int prepare_steps(struct plan *p, struct error *e)
{
    const struct graph *g = p->graph;
    p->steps = pool_alloc(&p->pool, g->n_nodes, sizeof *p->steps);
    if (!p->steps)
        return error_no_memory(e, "the plan", g->n_nodes * sizeof *p->steps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct step *s = &p->steps[p->n_steps++];
        *s = (struct step){.plan = p, .op = choose(g, &g->nodes[i]), .node = &g->nodes[i]};
        if (!s->op)
            return step_refuse(s, e, "operator %s is not implemented", graph_op_name(s->node->op));
        int r = check_first(s, e);
        if (r == 0)
            r = s->op->prepare(s, e);
        if (r < 0)
            return r;
        if (s->scratch > p->scratch_size)
            p->scratch_size = s->scratch;
    }
    return 0;
}

static uint64_t memory_limit(const struct graph *g)
{
    uint64_t limit = MEMORY_LEAST + (uint64_t)g->n_nodes * MEMORY_PER_NODE;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].constant)
            limit += MEMORY_PER_BYTE * (uint64_t)g->tensors[i].data.size;
    return limit;
}

int plan_init(struct plan *p, const struct graph *g, struct error *e)
{
    *p = (struct plan){.graph = g, .memory_limit = memory_limit(g)};
    int r = dnn_calls_new(&p->calls, e);
    if (r == 0)
        r = prepare_steps(p, e);
    if (r == 0)
        r = places_choose(p, e);
    if (r < 0)
        plan_done(p);
    return r;
}

void plan_done(struct plan *p)
{
    dnn_calls_free(p->calls);
    pool_done(&p->pool);
    *p = (struct plan){0};
}

const struct graph_tensor *step_input(const struct step *s, uint32_t i)
{
    bool there = i < s->node->n_inputs && s->node->inputs[i] >= 0;
    return there ? &s->plan->graph->tensors[s->node->inputs[i]] : NULL;
}

const struct graph_tensor *step_output(const struct step *s, uint32_t i)
{
    bool there = i < s->node->n_outputs && s->node->outputs[i] >= 0;
    return there ? &s->plan->graph->tensors[s->node->outputs[i]] : NULL;
}

int step_scratch(struct step *s, uint64_t size, uint64_t *ret_at, struct error *e)
{
    uint64_t end;
    if (__builtin_add_overflow(s->scratch, size, &end) || end > SCRATCH_MAX)
        return step_refuse(s, e, "it needs %llu bytes to work in", (unsigned long long)size);
    *ret_at = s->scratch;
    s->scratch = align_up(end, ALIGNMENT);
    return 0;
}

void *step_alloc(struct step *s, size_t n, size_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)n, size, &bytes) ||
        bytes > s->plan->memory_limit - s->plan->pool.total)
        return NULL;
    return pool_alloc(&s->plan->pool, n, size);
}

int step_floats(struct step *s, const struct graph_tensor *t, float **ret, struct error *e)
{
    if (!row_type_known(t->type))
        return step_refuse(s, e, "constant %s: type %s is not supported", t->name,
                           tensor_type_name(t->type));
    float *values = step_alloc(s, t->n_elems, sizeof *values);
    if (!values)
        return error_no_memory(e, "a constant", t->n_elems * sizeof *values);
    graph_tensor_floats(t, values);
    *ret = values;
    return 0;
}

// ---- running ----

static void *memory_new(uint64_t size)
{
    uint64_t rounded = align_up(size + 1, ALIGNMENT);
    void *memory = aligned_alloc(ALIGNMENT, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

int run_init(struct run *r, const struct plan *p, struct error *e)
{
    *r = (struct run){
        .plan = p, .own = memory_new(p->arena_size), .scratch = memory_new(p->scratch_size)};
    r->arena = r->own;
    int status = 0;
    if (!r->arena || !r->scratch)
        status = error_no_memory(e, "a context", p->arena_size + p->scratch_size);
    if (status == 0)
        status = dnn_bind(r, &r->bound, e);
    if (status < 0)
        run_done(r);
    return status;
}

void run_done(struct run *r)
{
    dnn_bound_free(r->bound);
    free(r->own);
    free(r->scratch);
    *r = (struct run){0};
}

int run_place(struct run *r, void *memory, struct error *e)
{
    struct run placed = *r;
    if (memory ? r->arena == memory : r->own != NULL)
        return 0;
    placed.own = memory ? NULL : memory_new(r->plan->arena_size);
    placed.arena = memory ? memory : placed.own;
    if (!placed.arena)
        return error_no_memory(e, "a context", r->plan->arena_size);
    int status = dnn_bind(&placed, &placed.bound, e);
    if (status < 0) {
        free(placed.own);
        return status;
    }
    dnn_bound_free(r->bound);
    free(r->own);
    *r = placed;
    return 0;
}

static int run_step(struct run *r, const struct step *s, struct error *e)
{
    int status = r->custom ? sim_custom(r, s, e) : 0;
    if (status == 0)
        status = s->op->run(s, r, e);
    if (status >= 0 && r->tap)
        status = sim_tap(r, s, e);
    return status;
}

int run_steps(struct run *r, struct error *e)
{
    uint64_t before = r->step_us ? clock_us() : 0;
    for (uint32_t i = 0; i < r->plan->n_steps; i++) {
        int status = npu_stop_check(r->stop, e);
        if (status == 0)
            status = run_step(r, &r->plan->steps[i], e);
        if (status < 0)
            return status;
        if (r->step_us) {
            uint64_t now = clock_us();
            r->step_us[i] = now - before;
            before = now;
        }
    }
    return 0;
}

void *run_tensor(const struct run *r, uint32_t index)
{
    return r->arena + r->plan->places[index];
}

const void *run_input(const struct step *s, const struct run *r, uint32_t i)
{
    uint32_t index = (uint32_t)s->node->inputs[i];
    const struct graph_tensor *t = &s->plan->graph->tensors[index];
    return t->constant ? t->data.data : run_tensor(r, index);
}

void *run_output(const struct step *s, const struct run *r, uint32_t i)
{
    return run_tensor(r, (uint32_t)s->node->outputs[i]);
}

void *run_scratch(const struct run *r, uint64_t at)
{
    return r->scratch + at;
}
