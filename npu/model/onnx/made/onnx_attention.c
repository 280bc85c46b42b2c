// Attention of ONNX (operator set 23), and what it shares with that of ONNX Runtime's domain
// (onnx_heads.c): products and a Softmax.
//
//      y = softmax(scale · Q Kᵀ + what is added) V      of each head, heads side by side in a row
#include <float.h>
#include <math.h>

#include "npu/model/onnx/onnx_maker.h"

// ---- heads ----

const char *onnx_split_heads(struct onnx_maker *m, const char *x, int64_t n)
{
    static const int64_t rows[4] = {0, 2, 1, 3};
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (!t || t->n_dims != 3 || n < 1 || t->dims[2] % (uint64_t)n || !t->dims[2]) {
        onnx_made_refuse(m, "its queries, keys and values must have three dimensions, the last one "
                            "of as many elements for each head");
        return "";
    }
    const int64_t dims[4] = {t->dims[0], t->dims[1], n, t->dims[2] / n};
    return onnx_step_transposed(m, onnx_step_reshaped(m, x, dims, 4, NULL), rows, 4, NULL);
}

const char *onnx_join_heads(struct onnx_maker *m, const char *x, const char *out)
{
    x = onnx_step_transposed(m, x, (const int64_t[]){0, 2, 1, 3}, 4, NULL);
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    return t ? onnx_step_reshaped(
                   m, x,
                   (const int64_t[]){t->dims[0], t->dims[1], (int64_t)t->dims[2] * t->dims[3]}, 3,
                   out)
             : "";
}

// Sizes that all steps need.
struct sizes {
    int64_t batch, heads, queries, shared, keys, size; // shared: heads of keys and values
};

// Whatever does not fit is refused here, so that the steps need not say what went wrong.
static bool take_sizes(struct onnx_maker *m, const struct onnx_heads *h, struct sizes *s)
{
    const struct graph_tensor *q = onnx_made_tensor(m, h->q), *k = onnx_made_tensor(m, h->k),
                              *v = onnx_made_tensor(m, h->v);
    if (!q || !k || !v)
        return false;
    bool fits = q->n_dims == 4 && k->n_dims == 4 && v->n_dims == 4 && q->dims[0] == k->dims[0] &&
                k->dims[0] == v->dims[0] && k->dims[1] == v->dims[1] && k->dims[2] == v->dims[2] &&
                k->dims[1] && q->dims[1] % k->dims[1] == 0 && q->dims[3] == k->dims[3] &&
                q->dims[3] && q->n_elems && k->n_elems;
    if (!fits) {
        onnx_made_refuse(m, "its queries, keys and values do not fit together");
        return false;
    }
    *s = (struct sizes){q->dims[0], q->dims[1], q->dims[2], k->dims[1], k->dims[2], q->dims[3]};
    return true;
}

// All queries that share a head of keys are rows of one matrix.
static const char *product(struct onnx_maker *m, const struct sizes *s, const char *x,
                           int64_t columns, const char *with, int64_t to)
{
    bool grouped = s->heads != s->shared;
    if (grouped)
        x = onnx_step_reshaped(
            m, x,
            (const int64_t[]){s->batch, s->shared, s->heads / s->shared * s->queries, columns}, 4,
            NULL);
    x = onnx_step_two(m, "MatMul", x, with, NULL);
    return grouped ? onnx_step_reshaped(m, x, (const int64_t[]){s->batch, s->heads, s->queries, to},
                                        4, NULL)
                   : x;
}

// ---- scores ----

// Truths: query i sees keys up to `first` + i.
static const char *seen_before(struct onnx_maker *m, const struct sizes *s, int64_t first)
{
    const int64_t dims[2] = {s->queries, s->keys}, one = 1;
    const struct onnx_attr lower = {.name = "upper", .i = 0};
    const char *ones =
        onnx_step_two(m, "Expand", onnx_step_ints(m, &one, 1), onnx_step_ints(m, dims, 2), NULL);
    const char *seen =
        onnx_step(m, "Trilu", ONNX_IN(ones, onnx_step_ints(m, &first, 1)), NULL, &lower, 1);
    return onnx_step_cast(m, seen, ONNX_BOOL, NULL);
}

static const char *scaled(struct onnx_maker *m, const char *x, float by)
{
    return by == 1 ? x : onnx_step_two(m, "Mul", x, onnx_step_like(m, by, x), NULL);
}

// Large scores are bent towards a bound, so that none rules alone.
static const char *capped(struct onnx_maker *m, const char *x, float cap)
{
    if (cap == 0)
        return x;
    return scaled(m, onnx_step_one(m, "Tanh", scaled(m, x, 1 / cap), NULL), cap);
}

// Masks of floats, and what a position adds.
static const char *with_added(struct onnx_maker *m, const struct onnx_heads *h, const char *x)
{
    for (uint32_t i = 0; i < 2; i++)
        if (h->added[i])
            x = onnx_step_two(m, "Add", x, h->added[i], NULL);
    return x;
}

// Where keys count; NULL: everywhere.
static const char *seen_of(struct onnx_maker *m, const struct onnx_heads *h, const struct sizes *s)
{
    const char *before = h->causal ? seen_before(m, s, h->first) : NULL;
    return h->seen && before ? onnx_step_two(m, "And", h->seen, before, NULL)
           : h->seen         ? h->seen
                             : before;
}

// One of the stages is an output of the node.
static void keep_stage(struct onnx_maker *m, const struct onnx_heads *h, uint32_t stage,
                       const char *x)
{
    if (h->stages[stage])
        onnx_step_one(m, "Identity", x, h->stages[stage]);
}

// In this order: product, scale, bound, what is added, what is not seen, softmax, product.
const char *onnx_attend(struct onnx_maker *m, const struct onnx_heads *h)
{
    const struct onnx_attr last = {.name = "axis", .i = -1};
    struct sizes s;
    if (!take_sizes(m, h, &s))
        return "";
    const char *k = onnx_step_transposed(m, h->k, (const int64_t[]){0, 1, 3, 2}, 4, NULL);
    const char *x = product(m, &s, h->q, s.size, k, s.keys);
    x = scaled(m, x, h->scale != 0 ? h->scale : 1 / sqrtf((float)s.size));
    keep_stage(m, h, 0, x);
    x = capped(m, x, h->cap);
    keep_stage(m, h, 1, x);
    x = with_added(m, h, x);
    const char *seen = seen_of(m, h, &s);
    if (seen)
        x = onnx_step(m, "Where", ONNX_IN(seen, x, onnx_step_like(m, -FLT_MAX, x)), NULL, NULL, 0);
    keep_stage(m, h, 2, x);
    x = onnx_step(m, "Softmax", ONNX_IN(x), NULL, &last, 1);
    if (h->blind)
        x = onnx_step(m, "Where", ONNX_IN(seen, x, onnx_step_like(m, 0, x)), NULL, NULL, 0);
    keep_stage(m, h, 3, x);
    const struct graph_tensor *values = onnx_made_tensor(m, h->v);
    return values ? product(m, &s, x, s.keys, h->v, values->dims[3]) : "";
}

// ---- ONNX's ----

// Input i, of heads side by side or one behind the other; they may be behind those of a cache
// (input `past`), and are then an output.
static const char *take_heads(struct onnx_maker *m, uint32_t i, const char *attribute,
                              uint32_t past, uint32_t present)
{
    const char *x = onnx_made_input(m, i), *before = past ? onnx_made_input(m, past) : NULL;
    const char *out = present ? onnx_made_output(m, present) : NULL;
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (t && t->n_dims != 4)
        x = onnx_split_heads(m, x, onnx_made_int(m, attribute, 0));
    if (before)
        return onnx_step_joined(m, before, x, 2, out);
    return out ? onnx_step_one(m, "Identity", x, out) : x;
}

// Attention(Q, K, V, mask, past keys, past values) -> Y, keys, values, scores
int onnx_make_standard_attention(struct onnx_maker *m)
{
    const char *mask = onnx_made_input(m, 3), *past = onnx_made_input(m, 4);
    const struct graph_tensor *q = onnx_made_tensor(m, onnx_made_input(m, 0)),
                              *t = past ? onnx_made_tensor(m, past) : NULL;
    int64_t stage = onnx_made_int(m, "qk_matmul_output_mode", 0);
    onnx_made_allow(m,
                    "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap "
                    "softmax_precision",
                    6);
    if (stage < 0 || stage > 3 || !past != !onnx_made_input(m, 5))
        onnx_made_refuse(m, "its qk_matmul_output_mode is not known, or it has half a cache");
    if (m->r < 0)
        return m->r;
    bool rows = q->n_dims == 4;
    struct onnx_heads h = {.scale = onnx_made_float(m, "scale", 0),
                           .cap = onnx_made_float(m, "softcap", 0),
                           .causal = onnx_made_int(m, "is_causal", 0) != 0,
                           .first = t && t->n_dims == 4 ? t->dims[2] : 0};
    h.stages[stage] = onnx_made_output(m, 3);
    h.q = take_heads(m, 0, "q_num_heads", 0, 0);
    h.k = take_heads(m, 1, "kv_num_heads", 4, 1);
    h.v = take_heads(m, 2, "kv_num_heads", 5, 2);
    t = mask ? onnx_made_tensor(m, mask) : NULL;
    h.blind = t && t->type == TENSOR_BOOL;
    if (h.blind)
        h.seen = mask;
    else
        h.added[0] = mask;
    const char *y = onnx_attend(m, &h);
    if (rows)
        onnx_step_one(m, "Identity", y, onnx_made_output(m, 0));
    else
        onnx_join_heads(m, y, onnx_made_output(m, 0));
    return m->r;
}
