// Attention: y = softmax(scale * qᵀ k) v for each head, with q [H, D, 1, N], k [H, D, 1, M],
// v [H, E, 1, M] and y [H, E, 1, N]. The softmax is over the M keys.
//
// An NPU that computes it in integers holds queries, products and weights in 8 bits with sign:
// where their steps are given, each is rounded to them (ties to even) and saturates.
// Sums are in doubles. Tests: test_npuref, against the registers of a file (yolo26n_attention).
#include <math.h>

#include "npu/sim/ref/ref.h"

struct sizes {
    size_t heads, depth, width, queries, keys; // H, D, E, N, M
};

// False: the shapes do not belong together.
static bool take_sizes(const struct ref_call *c, struct sizes *ret)
{
    const struct graph_tensor *q = c->in[0].t, *k = c->in[1].t, *v = c->in[2].t, *y = c->out[0].t;
    if (!q || !k || !v || !y)
        return false;
    for (int i = 0; i < 3; i++)
        if (!c->in[i].real || c->in[i].t->n_dims != 4 || c->in[i].t->dims[2] != 1)
            return false;
    *ret = (struct sizes){q->dims[0], q->dims[1], v->dims[1], q->dims[3], k->dims[3]};
    return c->out[0].real && y->n_dims == 4 && k->dims[0] == q->dims[0] &&
           k->dims[1] == q->dims[1] && v->dims[0] == q->dims[0] && v->dims[3] == k->dims[3] &&
           y->dims[0] == q->dims[0] && y->dims[1] == v->dims[1] && y->dims[2] == 1 &&
           y->dims[3] == q->dims[3];
}

// A row of products, and the query that it is of.
static int check_attention(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct sizes s;
    if (!take_sizes(c, &s))
        return ref_refuse(c, e, "its queries, keys and values do not fit together");
    *ret_extra = (uint64_t)s.keys + s.depth;
    return 0;
}

// In steps, of 8 bits.
static double saturated(double n)
{
    return fmin(fmax(rint(n), INT8_MIN), INT8_MAX);
}

// What the softmax is made of. Sums are multiplied by the scale, then by the way into products:
// each is a stage that rounds. `unit`: of sums; 0: they are real.
static double product(const float *reals, double sum, double unit)
{
    double scale = (double)reals[REF_ATTENTION_SCALE];
    if (unit == 0)
        return sum * scale;
    double scaled = rint(sum / unit * scale);
    double zero = (double)reals[REF_ATTENTION_PRODUCT_ZERO];
    double stored = saturated(scaled * (double)reals[REF_ATTENTION_TO_PRODUCT] + zero);
    return (stored - zero) * (double)reals[REF_ATTENTION_PRODUCT];
}

static double weight(const float *reals, double real, double unit)
{
    if (unit == 0)
        return real;
    return saturated(real * (double)reals[REF_ATTENTION_TO_WEIGHT]) *
           (double)reals[REF_ATTENTION_WEIGHT];
}

// w[j] = softmax(scale * Σ query[d] * k[d][j])
static void weigh(const struct ref_call *c, const struct sizes *s, const union ref_value *query,
                  const union ref_value *k, union ref_value *w)
{
    const float *reals = c->node->ref.reals;
    double unit = (double)reals[REF_ATTENTION_QUERY] * (double)c->in[1].t->scale;
    double top = (double)-INFINITY, sum = 0;
    for (size_t j = 0; j < s->keys; j++)
        w[j].r = 0;
    for (size_t d = 0; d < s->depth; d++)
        for (size_t j = 0; j < s->keys; j++)
            w[j].r += query[d].r * k[d * s->keys + j].r;
    for (size_t j = 0; j < s->keys; j++) {
        w[j].r = product(reals, w[j].r, unit);
        top = fmax(top, w[j].r);
    }
    for (size_t j = 0; j < s->keys; j++)
        sum += w[j].r = exp(w[j].r - top);
    for (size_t j = 0; j < s->keys; j++)
        w[j].r = weight(reals, w[j].r / sum, unit);
}

static int run_attention(struct ref_call *c, struct error *e)
{
    struct sizes s;
    if (!take_sizes(c, &s))
        return ref_fail(c, e, "its shapes have changed");
    double step = (double)c->node->ref.reals[REF_ATTENTION_QUERY];
    double more = (double)c->node->ref.reals[REF_ATTENTION_QUERY_MORE];
    union ref_value *w = c->extra, *query = w + s.keys;
    for (size_t h = 0; h < s.heads; h++)
        for (size_t i = 0; i < s.queries; i++) {
            const union ref_value *q = c->in[0].v + h * s.depth * s.queries + i;
            const union ref_value *v = c->in[2].v + h * s.width * s.keys;
            union ref_value *y = c->out[0].v + h * s.width * s.queries + i;
            for (size_t d = 0; d < s.depth; d++) {
                double x = q[d * s.queries].r;
                query[d].r = step == 0 ? x : saturated(x / step + more) * step;
            }
            weigh(c, &s, query, c->in[1].v + h * s.depth * s.keys, w);
            for (size_t x = 0; x < s.width; x++) {
                double sum = 0;
                for (size_t j = 0; j < s.keys; j++)
                    sum += w[j].r * v[x * s.keys + j].r;
                y[x * s.queries].r = sum;
            }
        }
    return 0;
}

const struct ref_operator ref_attention = {.check = check_attention, .run = run_attention};
