// ReduceSum, ReduceMax and the like of floats, over any axes, in the order of the input's memory.
// Other types, and LogSumExp, are the reference operator's (ref_reduce.c, which has the formulas).
//
//   totals[y] = totals[y] + g(x)          in doubles, one for each element of the output
//   y         = f(totals[y])
//
// A line of the input is summed up for itself where all of it belongs to one element of the output,
// in LANES sums, so that none waits for the one before. Largest ones are found among floats.
//
// Tests: test_onnx_nodes, test_onnx_moves.
#include <math.h>

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/kernel.h"

#define LANES 32

struct reduce {
    struct nd nd; // operand 0: input, 1: output
    int64_t kind;
    double count; // elements of the input for each of the output
    uint64_t totals;
};

// ---- lines ----

// One choice after the other, as compilers make vectors of them. NaN wins.
static inline float reduce_larger_float(float x, float old)
{
    float larger = x > old ? x : old;
    return x != x ? x : larger;
}

static inline double reduce_larger_total(double x, double old)
{
    double larger = x > old ? x : old;
    return x != x ? x : larger;
}

KERNEL(double, largest_of_line, (const float *x, size_t n, float sign), (x, n, sign))
{
    float lanes[LANES], all = -INFINITY;
    size_t i = 0;
    for (size_t k = 0; k < LANES; k++)
        lanes[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] = reduce_larger_float(sign * x[i + k], lanes[k]);
    for (; i < n; i++)
        all = reduce_larger_float(sign * x[i], all);
    for (size_t k = 0; k < LANES / 2; k++)
        lanes[k] = reduce_larger_float(lanes[LANES / 2 + k], lanes[k]);
    for (size_t k = 0; k < LANES / 4; k++)
        lanes[k] = reduce_larger_float(lanes[LANES / 4 + k], lanes[k]);
    for (size_t k = 0; k < LANES / 4; k++)
        all = reduce_larger_float(lanes[k], all);
    return (double)(sign * all);
}

#define SUM(expression)                                                                            \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            const double v = (double)x[i + k];                                                     \
            lanes[k] += (expression);                                                              \
        }                                                                                          \
    for (; i < n; i++) {                                                                           \
        const double v = (double)x[i];                                                             \
        all += (expression);                                                                       \
    }                                                                                              \
    break

KERNEL(double, sum_of_line, (int64_t kind, const float *x, size_t n), (kind, x, n))
{
    double lanes[LANES] = {0}, all = 0;
    size_t i = 0;
    switch (kind) {
    case REF_L1:
        SUM(fabs(v));
    case REF_L2:
    case REF_SUM_SQUARE:
        SUM(v * v);
    default:
        SUM(v);
    }
    for (size_t k = 0; k < LANES; k++)
        all += lanes[k];
    return all;
}

KERNEL(double, product_of_line, (const float *x, size_t n), (x, n))
{
    double lanes[LANES], all = 1;
    size_t i = 0;
    for (size_t k = 0; k < LANES; k++)
        lanes[k] = 1;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] *= (double)x[i + k];
    for (; i < n; i++)
        all *= (double)x[i];
    for (size_t k = 0; k < LANES; k++)
        all *= lanes[k];
    return all;
}

static double add_total(int64_t kind, double value, double old)
{
    switch (kind) {
    case REF_PROD:
        return old * value;
    case REF_REDUCE_MAX:
        return reduce_larger_total(value, old);
    case REF_REDUCE_MIN:
        return -reduce_larger_total(-value, -old);
    default:
        return old + value;
    }
}

static double total_of_line(int64_t kind, const float *x, size_t n)
{
    switch (kind) {
    case REF_PROD:
        return product_of_line(x, n);
    case REF_REDUCE_MAX:
        return largest_of_line(x, n, 1);
    case REF_REDUCE_MIN:
        return largest_of_line(x, n, -1);
    default:
        return sum_of_line(kind, x, n);
    }
}

#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++) {                                                               \
        const double v = (double)x[i], old = to[i];                                                \
        to[i] = (expression);                                                                      \
    }                                                                                              \
    break

// Each element of a line to a total of its own.
KERNEL(void, reduce_add_line,
       (int64_t kind, const float *restrict x, size_t n, double *restrict to), (kind, x, n, to))
{
    switch (kind) {
    case REF_PROD:
        EACH(old * v);
    case REF_REDUCE_MAX:
        EACH(reduce_larger_total(v, old));
    case REF_REDUCE_MIN:
        EACH(-reduce_larger_total(-v, -old));
    case REF_L1:
        EACH(old + fabs(v));
    case REF_L2:
    case REF_SUM_SQUARE:
        EACH(old + v * v);
    default:
        EACH(old + v);
    }
}

// ---- the step ----

static bool reduce_has_axis(const struct graph_node *n, uint32_t axis)
{
    for (uint32_t i = 1; i < n->ref.n_ints; i++)
        if (n->ref.ints[i] == axis)
            return true;
    return n->ref.n_ints == 1;
}

// Strides of the output by the input's dimensions, 0 where they are reduced. False: it has not
// these, with or without the others.
static bool reduce_strides(const struct graph_node *n, const struct graph_tensor *x,
                           const struct graph_tensor *y, int64_t strides[GRAPH_MAX_DIMS])
{
    int64_t own[GRAPH_MAX_DIMS];
    uint32_t kept = 0, at = 0;
    for (uint32_t i = 0; i < x->n_dims; i++)
        kept += !reduce_has_axis(n, i);
    if (y->n_dims != x->n_dims && y->n_dims != kept)
        return false;
    graph_tensor_strides(y, own);
    for (uint32_t i = 0; i < x->n_dims; i++) {
        const bool reduced = reduce_has_axis(n, i), there = !reduced || y->n_dims == x->n_dims;
        if (there && y->dims[at] != (reduced ? 1 : x->dims[i]))
            return false;
        strides[i] = reduced ? 0 : own[at];
        at += there;
    }
    return true;
}

static bool reduce_take(const struct graph *g, const struct graph_node *n, struct reduce *p)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_REDUCE || n->n_inputs != 1 || n->n_outputs != 1 ||
        n->inputs[0] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    int64_t strides[GRAPH_MAX_DIMS] = {0};
    *p = (struct reduce){.kind = n->ref.ints[0]};
    if (p->kind == REF_LOG_SUM_EXP || x->type != TENSOR_FLOAT32 || y->type != TENSOR_FLOAT32 ||
        x->quantized || y->quantized || x->constant || !x->n_elems || !y->n_elems || !x->n_dims ||
        !reduce_strides(n, x, y, strides))
        return false;
    p->count = (double)x->n_elems / (double)y->n_elems;
    nd_init(&p->nd, x);
    nd_add(&p->nd, strides);
    nd_simplify(&p->nd);
    return nd_stride(&p->nd, 0) == 1 || nd_inner(&p->nd) == 1;
}

bool op_reduce_fits(const struct graph *g, const struct graph_node *n)
{
    struct reduce p;
    return reduce_take(g, n, &p);
}

static int reduce_prepare(struct step *s, struct error *e)
{
    struct reduce *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!reduce_take(s->plan->graph, s->node, p))
        return step_refuse(s, e, "its output does not fit its reduced input");
    return step_scratch(s, step_output(s, 0)->n_elems * sizeof(double), &p->totals, e);
}

static double reduce_result(const struct reduce *p, double total)
{
    return p->kind == REF_MEAN      ? total / p->count
           : p->kind == REF_L2      ? sqrt(total)
           : p->kind == REF_LOG_SUM ? log(total)
                                    : total;
}

static void reduce_lines(const struct reduce *p, const float *x, double *totals)
{
    const size_t n = nd_inner(&p->nd);
    const int64_t step = nd_stride(&p->nd, 1);
    struct nd_position at;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at)) {
        const float *line = x + at.offset[0];
        double *to = totals + at.offset[1];
        if (step == 0)
            *to = add_total(p->kind, total_of_line(p->kind, line, n), *to);
        else if (step == 1)
            reduce_add_line(p->kind, line, n, to);
        else
            for (size_t i = 0; i < n; i++)
                reduce_add_line(p->kind, line + i, 1, to + (int64_t)i * step);
    }
}

static int reduce_run(const struct step *s, struct run *r, struct error *e)
{
    const struct reduce *p = s->state;
    const uint64_t n = step_output(s, 0)->n_elems;
    double *totals = run_scratch(r, p->totals);
    float *y = run_output(s, r, 0);
    (void)e;
    for (uint64_t i = 0; i < n; i++)
        totals[i] = p->kind == REF_PROD         ? 1
                    : p->kind == REF_REDUCE_MAX ? -INFINITY
                    : p->kind == REF_REDUCE_MIN ? INFINITY
                                                : 0;
    reduce_lines(p, run_input(s, r, 0), totals);
    for (uint64_t i = 0; i < n; i++)
        y[i] = (float)reduce_result(p, totals[i]);
    return 0;
}

const struct op op_reduce = {.prepare = reduce_prepare, .run = reduce_run};
