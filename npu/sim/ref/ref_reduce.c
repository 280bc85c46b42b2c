// Operators along axes.
//
//   Reduce…           y = f(Σ g(x)), Π x, max x or min x;  g: x, |x|, x², e^x;  f: mean, √, log
//   Softmax           y = e^(x - max) / Σ e^(x - max)
//   LogSoftmax        y = x - max - log Σ e^(x - max)
//   Hardmax           y = 1 at the first maximum, else 0
//   ArgMax, CumSum    as ONNX says
//   TopK              as ONNX says; equal elements in the order of their indices
//
// One axis is seen as [outer][size][inner] (nd_axis). Sums in doubles, or in integers that wrap.
// Tests: test_onnx_nodes (ONNX's own cases), test_sim_cases_reduce, _index and _edges (.rknn).
#include <math.h>

#include "npu/sim/ref/ref.h"
#include "npu/sim/simd/kernel.h"

// ints: kind, then the axes; none means all.
static bool is_reduced(const struct graph_node *n, uint32_t axis)
{
    for (uint32_t i = 1; i < n->ref.n_ints; i++)
        if (n->ref.ints[i] == axis)
            return true;
    return n->ref.n_ints == 1;
}

// ---- Reduce… ----

static int check_reduce(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    uint64_t kept = 1;
    int64_t kind = c->node->ref.ints[0];
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    bool needs_reals = kind == REF_LOG_SUM || kind == REF_LOG_SUM_EXP;
    for (uint32_t i = 0; x && i < x->n_dims; i++)
        kept *= is_reduced(c->node, i) ? 1 : x->dims[i];
    bool same = c->in[0].real ? c->out[0].real : x && x->type == y->type;
    bool empty = x && !x->n_elems && kept && kind != REF_SUM && kind != REF_PROD &&
                 kind != REF_L1 && kind != REF_L2 && kind != REF_SUM_SQUARE;
    if (!x || kept != y->n_elems || empty || !same || (needs_reals && !c->in[0].real))
        return ref_refuse(c, e, "its output does not fit its reduced input");
    *ret_extra = kind == REF_LOG_SUM_EXP ? kept : 0;
    return 0;
}

// The value of an empty sum, product or extremum.
static double reduce_start(int64_t kind)
{
    switch (kind) {
    case REF_PROD:
        return 1;
    case REF_REDUCE_MAX:
    case REF_LOG_SUM_EXP:
        return -INFINITY;
    case REF_REDUCE_MIN:
        return INFINITY;
    default:
        return 0;
    }
}

// A row of the last dimension: n elements to the same sum (step 0), or each to its own (step 1).
#define EACH_REAL(expression)                                                                      \
    if (step)                                                                                      \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const double x = v[i].r, old = sum[i].r;                                               \
            sum[i].r = (expression);                                                               \
        }                                                                                          \
    else                                                                                           \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const double x = v[i].r, old = sum->r;                                                 \
            sum->r = (expression);                                                                 \
        }                                                                                          \
    break

// One choice after the other: of both at once compilers make branches, and no vectors.
static inline double reduce_larger(double x, double old)
{
    double larger = x > old ? x : old;
    return x != x ? x : larger;
}

// NaN wins over any maximum or minimum. LOG_SUM_EXP takes the largest first, and sums in a second
// pass, so that e^x does not overflow.
KERNEL(void, gather_reals,
       (int64_t kind, const union ref_value *restrict v, uint64_t n, uint64_t step,
        union ref_value *restrict sum),
       (kind, v, n, step, sum))
{
    switch (kind) {
    case REF_PROD:
        EACH_REAL(old * x);
    case REF_REDUCE_MAX:
    case REF_LOG_SUM_EXP: // first the largest
        EACH_REAL(reduce_larger(x, old));
    case REF_REDUCE_MIN:
        EACH_REAL(-reduce_larger(-x, -old));
    case REF_L1:
        EACH_REAL(old + fabs(x));
    case REF_L2:
    case REF_SUM_SQUARE:
        EACH_REAL(old + x * x);
    default:
        EACH_REAL(old + x);
    }
}

// Wraps modulo 2^64.
static void gather_integer(int64_t kind, int64_t x, int64_t *sum)
{
    uint64_t v = (uint64_t)x, s = (uint64_t)*sum;
    switch (kind) {
    case REF_PROD:
        *sum = (int64_t)(s * v);
        break;
    case REF_REDUCE_MAX:
        *sum = x > *sum ? x : *sum;
        break;
    case REF_REDUCE_MIN:
        *sum = x < *sum ? x : *sum;
        break;
    case REF_L1:
        *sum = (int64_t)(s + (x < 0 ? 0 - v : v));
        break;
    case REF_L2:
    case REF_SUM_SQUARE:
        *sum = (int64_t)(s + v * v);
        break;
    default:
        *sum = (int64_t)(s + v);
    }
}

static union ref_value reduce_first(const struct ref_call *c, int64_t kind)
{
    if (c->in[0].real)
        return (union ref_value){.r = reduce_start(kind)};
    return (union ref_value){.i = kind == REF_PROD         ? 1
                                  : kind == REF_REDUCE_MAX ? INT64_MIN
                                  : kind == REF_REDUCE_MIN ? INT64_MAX
                                                           : 0};
}

// Integer means are truncated towards zero.
static void reduce_finish(const struct ref_call *c, int64_t kind, double count, union ref_value *v)
{
    if (!c->in[0].real) {
        v->i = kind == REF_MEAN ? v->i / (int64_t)count
               : kind == REF_L2 ? ref_to_integer(sqrt((double)v->i))
                                : v->i;
        return;
    }
    v->r = kind == REF_MEAN ? v->r / count : kind == REF_L2 ? sqrt(v->r) : v->r;
    v->r = kind == REF_LOG_SUM ? log(v->r) : v->r;
}

// A walk over the input whose operand 0 is the element of the output.
static void walk_reduced(const struct ref_call *c, struct ref_walk *w)
{
    int64_t step = 1;
    ref_walk_init(w, c->in[0].t);
    for (uint32_t i = w->n_dims; i-- > 0;) {
        bool reduced = is_reduced(c->node, i);
        w->strides[0][i] = reduced ? 0 : step;
        step *= reduced ? 1 : w->dims[i];
    }
    w->n_operands = 1;
}

// The same over rows of the last dimensions, as many of them as are all reduced or all kept; how
// long a row is. Its elements' step in the output is the stride behind the walk's last one.
static uint64_t walk_rows(const struct ref_call *c, struct ref_walk *w)
{
    uint64_t row = 1;
    walk_reduced(c, w);
    for (bool first = true; w->n_dims; first = false) {
        bool kept = !is_reduced(c->node, w->n_dims - 1);
        if (!first && kept != (w->strides[0][w->n_dims] != 0))
            break;
        row *= w->dims[--w->n_dims];
        w->strides[0][w->n_dims] = kept;
    }
    return row;
}

// log Σ e^x = max + log Σ e^(x - max); the output holds the maxima on entry.
static void log_sum_exp(struct ref_call *c)
{
    struct ref_walk w;
    uint64_t n = c->out[0].t->n_elems;
    union ref_value *top = c->out[0].v, *sum = c->extra;
    for (uint64_t k = 0; k < n; k++)
        sum[k].r = 0;
    walk_reduced(c, &w);
    for (uint64_t k = 0; k < c->in[0].t->n_elems; k++, ref_walk_next(&w))
        sum[w.at[0]].r += exp(c->in[0].v[k].r - top[w.at[0]].r);
    for (uint64_t k = 0; k < n; k++)
        top[k].r += log(sum[k].r);
}

// The mean divides by the number of elements per output.
static int run_reduce(struct ref_call *c, struct error *e)
{
    (void)e;
    struct ref_walk w;
    int64_t kind = c->node->ref.ints[0];
    union ref_value *y = c->out[0].v;
    uint64_t n = c->out[0].t->n_elems;
    for (uint64_t k = 0; k < n; k++)
        y[k] = reduce_first(c, kind);
    uint64_t row = walk_rows(c, &w), step = (uint64_t)w.strides[0][w.n_dims];
    for (uint64_t k = 0; k < c->in[0].t->n_elems; k += row, ref_walk_next(&w)) {
        union ref_value *to = y + w.at[0];
        if (c->in[0].real)
            gather_reals(kind, c->in[0].v + k, row, step, to);
        else
            for (uint64_t i = 0; i < row; i++)
                gather_integer(kind, c->in[0].v[k + i].i, &to[i * step].i);
    }
    if (kind == REF_LOG_SUM_EXP)
        log_sum_exp(c);
    for (uint64_t k = 0; k < n; k++)
        reduce_finish(c, kind, (double)c->in[0].t->n_elems / (double)n, &y[k]);
    return 0;
}

// ---- along one axis: ints[0] ----

static int check_along(const struct ref_call *c, struct error *e)
{
    const struct graph_tensor *x = c->in[0].t;
    int64_t axis = c->node->ref.ints[0];
    if (!x || axis < 0 || axis >= x->n_dims)
        return ref_refuse(c, e, "it has no valid axis");
    return 0;
}

static int check_same(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    int r = check_along(c, e);
    if (r == 0 && (c->in[0].t->n_elems != c->out[0].t->n_elems || c->in[0].real != c->out[0].real))
        return ref_refuse(c, e, "input and output differ");
    return r;
}

static bool reduce_less(const struct ref_call *c, union ref_value a, union ref_value b)
{
    return c->in[0].real ? a.r < b.r : a.i < b.i;
}

static int check_arg_reduce(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    int r = check_along(c, e);
    if (r < 0)
        return r;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)c->node->ref.ints[0]);
    if (c->out[0].t->n_elems != a.outer * a.inner || !a.size || c->out[0].real)
        return ref_refuse(c, e, "its output has not the size of its reduced input");
    return 0;
}

// Element i of each row that lies beside the others, against the best one so far.
#define EACH_BEST(member)                                                                          \
    for (uint64_t j = 0; j < inner; j++) {                                                         \
        const int64_t best = y[j].i;                                                               \
        const int order = (x[(uint64_t)best * inner + j].member < x[i * inner + j].member) -       \
                          (x[i * inner + j].member < x[(uint64_t)best * inner + j].member);        \
        y[j].i = order * sign >= least ? (int64_t)i : best;                                        \
    }

// NaN is neither larger nor smaller.
KERNEL(void, arg_reduce_line,
       (bool real, int sign, int least, const union ref_value *restrict x, uint64_t i,
        uint64_t inner, union ref_value *restrict y),
       (real, sign, least, x, i, inner, y))
{
    if (real)
        EACH_BEST(r)
    else
        EACH_BEST(i)
}

// ints: axis, smallest instead of largest, last instead of first
static int run_arg_reduce(struct ref_call *c, struct error *e)
{
    (void)e;
    const int64_t *ints = c->node->ref.ints;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)ints[0]);
    for (uint64_t o = 0; o < a.outer; o++) {
        const union ref_value *x = c->in[0].v + o * a.size * a.inner;
        union ref_value *y = c->out[0].v + o * a.inner;
        for (uint64_t j = 0; j < a.inner; j++)
            y[j].i = 0;
        for (uint64_t i = 1; i < a.size; i++)
            arg_reduce_line(c->in[0].real, ints[1] ? -1 : 1, ints[2] ? 0 : 1, x, i, a.inner, y);
    }
    return 0;
}

static int check_softmax(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    int r = check_same(c, ret_extra, e);
    return r == 0 && !c->in[0].real ? ref_refuse(c, e, "it works on floats") : r;
}

// ints: axis, up to the end (before opset 13: all dimensions from the axis on are one), logarithm.
static struct nd_axis softmax_along(const struct ref_call *c)
{
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)c->node->ref.ints[0]);
    return c->node->ref.ints[1] ? (struct nd_axis){a.outer, a.size * a.inner, 1} : a;
}

static int run_softmax(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = softmax_along(c);
    for (uint64_t k = 0; k < a.outer * a.inner; k++) {
        uint64_t at = k / a.inner * a.size * a.inner + k % a.inner;
        const union ref_value *x = c->in[0].v + at;
        union ref_value *y = c->out[0].v + at;
        double top = -INFINITY, sum = 0;
        for (uint64_t i = 0; i < a.size; i++)
            top = fmax(top, x[i * a.inner].r);
        for (uint64_t i = 0; i < a.size; i++)
            sum += exp(x[i * a.inner].r - top);
        const double lost = log(sum);
        for (uint64_t i = 0; i < a.size; i++) {
            double v = x[i * a.inner].r - top;
            y[i * a.inner].r = c->node->ref.ints[2] ? v - lost : exp(v) / sum;
        }
    }
    return 0;
}

// 1 for the first maximum, else 0.
static int run_hardmax(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = softmax_along(c);
    for (uint64_t k = 0; k < a.outer * a.inner; k++) {
        uint64_t at = k / a.inner * a.size * a.inner + k % a.inner, best = 0;
        const union ref_value *x = c->in[0].v + at;
        for (uint64_t i = 1; i < a.size; i++)
            best = x[i * a.inner].r > x[best * a.inner].r ? i : best;
        for (uint64_t i = 0; i < a.size; i++)
            c->out[0].v[at + i * a.inner].r = i == best;
    }
    return 0;
}

// ints: axis, without the element itself, from the end. All that lie beside each other are summed
// side by side.
static int run_cum_sum(struct ref_call *c, struct error *e)
{
    (void)e;
    const int64_t *ints = c->node->ref.ints;
    const bool real = c->in[0].real, without = ints[1], back = ints[2];
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)ints[0]);
    for (uint64_t k = 0; k < a.outer * a.size; k++) {
        const uint64_t i = k % a.size, line = k - i + (back ? a.size - 1 - i : i);
        const union ref_value *x = c->in[0].v + line * a.inner;
        union ref_value *y = c->out[0].v + line * a.inner;
        const union ref_value *before = back ? y + a.inner : y - a.inner;
        if (without)
            x = back ? x + a.inner : x - a.inner;
        for (uint64_t j = 0; j < a.inner; j++)
            if (without && i == 0)
                y[j] = (union ref_value){0};
            else if (real)
                y[j].r = (i ? before[j].r : 0) + x[j].r;
            else
                y[j].i = (int64_t)((i ? (uint64_t)before[j].i : 0) + (uint64_t)x[j].i);
    }
    return 0;
}

// ---- TopK: ints: axis, k, largest ----

static int check_top_k(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    int r = check_along(c, e);
    if (r < 0)
        return r;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)c->node->ref.ints[0]);
    uint64_t k = (uint64_t)c->node->ref.ints[1], n = a.outer * a.inner * k;
    if (k > a.size || (c->out[0].t && c->out[0].t->n_elems != n) ||
        (c->out[1].t && (c->out[1].t->n_elems != n || c->out[1].real)))
        return ref_refuse(c, e, "its outputs do not fit its input");
    *ret_extra = k;
    return 0;
}

// Whether element i of the row comes before element j.
static bool comes_first(const struct ref_call *c, const union ref_value *x, uint64_t step,
                        uint64_t i, uint64_t j)
{
    union ref_value a = x[i * step], b = x[j * step];
    return c->node->ref.ints[2] ? reduce_less(c, b, a) : reduce_less(c, a, b);
}

// Insertion into a sorted list of at most k: O(n k), and equal values stay in the order of their
// indices.
static int run_top_k(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)c->node->ref.ints[0]);
    uint64_t k = (uint64_t)c->node->ref.ints[1];
    union ref_value *order = c->extra;
    for (uint64_t row = 0; row < a.outer * a.inner && k; row++) {
        uint64_t outer = row / a.inner, inner = row % a.inner, n = 0;
        const union ref_value *x = c->in[0].v + outer * a.size * a.inner + inner;
        for (uint64_t i = 0; i < a.size; i++) {
            uint64_t at = n;
            while (at > 0 && comes_first(c, x, a.inner, i, (uint64_t)order[at - 1].i))
                at--;
            if (at == k)
                continue;
            n += n < k;
            for (uint64_t j = n - 1; j > at; j--)
                order[j] = order[j - 1];
            order[at].i = (int64_t)i;
        }
        for (uint64_t i = 0; i < k; i++) {
            uint64_t to = (outer * k + i) * a.inner + inner;
            if (c->out[0].t)
                c->out[0].v[to] = x[(uint64_t)order[i].i * a.inner];
            if (c->out[1].t)
                c->out[1].v[to] = order[i];
        }
    }
    return 0;
}

const struct ref_operator ref_reduce = {.check = check_reduce, .run = run_reduce};
const struct ref_operator ref_arg_reduce = {.check = check_arg_reduce, .run = run_arg_reduce};
const struct ref_operator ref_softmax = {.check = check_softmax, .run = run_softmax};
const struct ref_operator ref_hardmax = {.check = check_softmax, .run = run_hardmax};
const struct ref_operator ref_cum_sum = {.check = check_same, .run = run_cum_sum};
const struct ref_operator ref_top_k = {.check = check_top_k, .run = run_top_k};
