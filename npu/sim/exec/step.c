// What operators ask of their step and plan while they prepare, and of the run while they compute.
// Preparing is done once, by the thread that makes the plan; running by the threads of jobs.
#include "npu/sim/exec/step.h"

#include "npu/sim/simd/elements.h"

#define SCRATCH_MAX ((uint64_t)1 << 32)

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

const struct step *step_before(const struct step *s)
{
    const struct plan *p = s->plan;
    bool listed = s->op->watch && s > p->steps && s < p->steps + p->n_steps;
    const struct graph_node *n = listed ? s[-1].node : NULL;
    return n && n->n_outputs && n->outputs[0] >= 0 && s->node->n_inputs &&
                   s->node->inputs[0] == n->outputs[0]
               ? s - 1
               : NULL;
}

// Reserves bytes of the memory that the step may use while it runs. *ret_at is an offset for
// run_scratch(), because each run has its own scratch memory.
int step_scratch(struct step *s, uint64_t size, uint64_t *ret_at, struct error *e)
{
    uint64_t end;
    if (__builtin_add_overflow(s->scratch, size, &end) || end > SCRATCH_MAX)
        return step_refuse(s, e, "it needs %llu bytes to work in", (unsigned long long)size);
    *ret_at = s->scratch;
    s->scratch = align_up(end, STEP_ALIGNMENT);
    return 0;
}

// Zeroed memory that lives as long as the plan; NULL also beyond plan_memory_limit().
void *step_alloc(struct step *s, size_t n, size_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)n, size, &bytes) ||
        bytes > s->plan->memory_limit - s->plan->pool.total)
        return NULL;
    return pool_alloc(&s->plan->pool, n, size);
}

// A constant as float32 in the order of its dimensions, dequantized, in the plan's memory.
int step_floats(struct step *s, const struct graph_tensor *t, float **ret, struct error *e)
{
    if (!element_type_known(t->type))
        return step_refuse(s, e, "constant %s: type %s is not supported", t->name,
                           tensor_type_name(t->type));
    float *values = step_alloc(s, t->n_elems, sizeof *values);
    if (!values)
        return error_no_memory(e, "a constant", t->n_elems * sizeof *values);
    elements_of_constant(t, values);
    *ret = values;
    return 0;
}

// ---- running ----

// Where a tensor that is not constant is stored in this run's arena.
void *run_tensor(const struct run *r, uint32_t index)
{
    return r->arena + r->plan->offsets[index];
}

// A constant's bytes are those of the file, in the file's order.
const void *run_input(const struct step *s, const struct run *r, uint32_t i)
{
    uint32_t index = (uint32_t)s->node->inputs[i];
    const struct graph_tensor *t = &s->plan->graph->tensors[index];
    return t->constant ? t->data.data : run_tensor(r, index);
}

void *run_output(const struct step *s, const struct run *r, uint32_t i)
{
    return s->output_is_scratch ? run_scratch(r, s->output_at)
                                : run_tensor(r, (uint32_t)s->node->outputs[i]);
}

void *run_scratch(const struct run *r, uint64_t at)
{
    return r->scratch + at;
}
