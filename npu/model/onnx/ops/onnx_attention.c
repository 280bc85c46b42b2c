// Attention and MultiHeadAttention of ONNX Runtime's domain, without a cache, as products and a
// Softmax:
//
//      y = softmax(scale · Q Kᵀ + what is added) V      of each head, heads side by side in a row
#include <math.h>

#include "npu/model/onnx/onnx_maker.h"

struct heads {
    const char *q, *k, *v; // [batch, length, heads · size]
    int64_t n;
    float scale; // 0: 1 / sqrt(size)
    const char *added, *mask;
    float filter; // what a key that the mask leaves out gets
    bool causal;
};

static const char *step_reshaped(struct onnx_maker *m, const char *x, const int64_t *dims,
                                 uint32_t n, const char *out)
{
    return onnx_step(m, "Reshape", ONNX_IN(x, onnx_step_ints(m, dims, n)), out, NULL, 0);
}

static const char *step_transposed(struct onnx_maker *m, const char *x, const int64_t perm[4])
{
    const struct onnx_attr a = {.name = "perm", .ints = {(int64_t *)(uintptr_t)perm, 4, 0}};
    return onnx_step(m, "Transpose", ONNX_IN(x), NULL, &a, 1);
}

// [batch, length, heads · size] as [batch, heads, length, size], or with the last two turned.
static const char *split_heads(struct onnx_maker *m, const char *x, int64_t n, bool turned)
{
    static const int64_t rows[4] = {0, 2, 1, 3}, columns[4] = {0, 2, 3, 1};
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (!t || t->n_dims != 3 || n < 1 || t->dims[2] % (uint64_t)n || !t->dims[2]) {
        onnx_made_refuse(m, "its queries, keys and values must have three dimensions, the last one "
                            "of as many elements for each head");
        return "";
    }
    const int64_t dims[4] = {t->dims[0], t->dims[1], n, t->dims[2] / n};
    return step_transposed(m, step_reshaped(m, x, dims, 4, NULL), turned ? columns : rows);
}

// Which keys count: a mask of 1 and 0 for each batch and key, or for each batch how many of the
// first ones.
static const char *seen_keys(struct onnx_maker *m, const char *mask, uint32_t batch, uint32_t keys)
{
    const struct onnx_attr to = {.name = "to", .i = ONNX_BOOL};
    const struct graph_tensor *t = onnx_made_tensor(m, mask);
    if (!t || t->dims[0] != batch || t->n_dims > 2 || (t->n_dims == 2 && t->dims[1] != keys)) {
        onnx_made_refuse(m, "a mask that has not a number for each batch and key, or the length of "
                            "each batch, is not supported");
        return "";
    }
    if (t->n_dims == 2)
        return onnx_step(m, "Cast", ONNX_IN(mask), NULL, &to, 1);
    int64_t *places = pool_alloc(&m->l->g->pool, keys, sizeof *places);
    for (uint32_t i = 0; places && i < keys; i++)
        places[i] = i;
    if (!places) {
        onnx_made_refuse(m, "there is no memory for its mask");
        return "";
    }
    const char *place =
        onnx_step(m, "CastLike", ONNX_IN(onnx_step_ints(m, places, keys), mask), NULL, NULL, 0);
    mask = step_reshaped(m, mask, (const int64_t[]){batch, 1}, 2, NULL);
    return onnx_step(m, "Less", ONNX_IN(place, mask), NULL, NULL, 0);
}

// What a mask adds: [batch, 1, 1, keys].
static const char *of_mask(struct onnx_maker *m, const struct heads *h, uint32_t batch,
                           uint32_t keys, const char *scores)
{
    const char *seen = seen_keys(m, h->mask, batch, keys);
    const char *none = onnx_step_like(m, 0, scores), *filter = onnx_step_like(m, h->filter, scores);
    const char *added = onnx_step(m, "Where", ONNX_IN(seen, none, filter), NULL, NULL, 0);
    return step_reshaped(m, added, (const int64_t[]){batch, 1, 1, keys}, 4, NULL);
}

// Queries see keys up to their own place: the lower triangle of `keys` columns stays.
static const char *mask_later(struct onnx_maker *m, const char *scores, uint32_t keys,
                              uint32_t queries)
{
    const int64_t dims[2] = {queries, keys};
    const struct onnx_attr lower = {.name = "upper", .i = 0};
    const struct onnx_attr to = {.name = "to", .i = ONNX_BOOL};
    const char *ones =
        onnx_step(m, "Expand", ONNX_IN(onnx_step_like(m, 1, scores), onnx_step_ints(m, dims, 2)),
                  NULL, NULL, 0);
    const int64_t k = (int64_t)keys - queries;
    const char *seen =
        onnx_step(m, "Trilu", ONNX_IN(ones, onnx_step_ints(m, &k, 1)), NULL, &lower, 1);
    seen = onnx_step(m, "Cast", ONNX_IN(seen), NULL, &to, 1);
    const char *hidden = onnx_step_like(m, -INFINITY, scores);
    return onnx_step(m, "Where", ONNX_IN(seen, scores, hidden), NULL, NULL, 0);
}

static const char *step_scaled(struct onnx_maker *m, const char *x, float scale)
{
    return onnx_step(m, "Mul", ONNX_IN(x, onnx_step_like(m, scale, x)), NULL, NULL, 0);
}

// Scores of all heads are one product; what is added to them broadcasts to [batch, heads, queries,
// keys].
static void heads_attend(struct onnx_maker *m, const struct heads *h)
{
    const struct onnx_attr last = {.name = "axis", .i = -1};
    const char *q = split_heads(m, h->q, h->n, false), *k = split_heads(m, h->k, h->n, true);
    const char *v = split_heads(m, h->v, h->n, false);
    const struct graph_tensor *keys = m->r < 0 ? NULL : onnx_made_tensor(m, k);
    if (!keys)
        return;
    uint32_t batch = keys->dims[0], size = keys->dims[2], n_keys = keys->dims[3];
    bool halves = keys->type == TENSOR_FLOAT16;
    float scale = h->scale != 0 ? h->scale : 1 / sqrtf((float)size);
    // Products of halves may be beyond them until they are scaled.
    if (halves)
        q = step_scaled(m, q, scale);
    const char *scores = onnx_step(m, "MatMul", ONNX_IN(q, k), NULL, NULL, 0);
    if (!halves)
        scores = step_scaled(m, scores, scale);
    if (h->mask)
        scores = onnx_step(m, "Add", ONNX_IN(scores, of_mask(m, h, batch, n_keys, scores)), NULL,
                           NULL, 0);
    if (h->added)
        scores = onnx_step(m, "Add", ONNX_IN(scores, h->added), NULL, NULL, 0);
    const struct graph_tensor *s = m->r < 0 ? NULL : onnx_made_tensor(m, scores);
    if (s && h->causal)
        scores = mask_later(m, scores, n_keys, s->dims[2]);
    const char *weights = onnx_step(m, "Softmax", ONNX_IN(scores), NULL, &last, 1);
    const char *y = onnx_step(m, "MatMul", ONNX_IN(weights, v), NULL, NULL, 0);
    y = step_transposed(m, y, (const int64_t[]){0, 2, 1, 3});
    const struct graph_tensor *t = m->r < 0 ? NULL : onnx_made_tensor(m, y);
    if (t)
        step_reshaped(m, y,
                      (const int64_t[]){t->dims[0], t->dims[1], (int64_t)t->dims[2] * t->dims[3]},
                      3, onnx_made_output(m, 0));
}

// What both operators say of their heads; keys that a mask leaves out get -10000 where nothing else
// is said.
static struct heads heads_said(struct onnx_maker *m)
{
    m->l->node = m->of;
    if (onnx_made_output(m, 1) || onnx_made_output(m, 2))
        onnx_made_refuse(m, "a cache (its outputs 1 and 2) is not supported");
    return (struct heads){.n = onnx_int(m->l, "num_heads", 0),
                          .scale = onnx_float(m->l, "scale", 0),
                          .filter = onnx_float(m->l, "mask_filter_value", -10000),
                          .causal = onnx_int(m->l, "unidirectional", 0) != 0};
}

// Part i of three of `size` elements, of dimension `dim`.
static const char *step_third(struct onnx_maker *m, const char *x, uint32_t dim, int64_t size,
                              int64_t i)
{
    const int64_t start = i * size, end = start + size, axis = dim;
    return onnx_step(m, "Slice",
                     ONNX_IN(x, onnx_step_ints(m, &start, 1), onnx_step_ints(m, &end, 1),
                             onnx_step_ints(m, &axis, 1)),
                     NULL, NULL, 0);
}

// Attention(x, weight of all three, bias, mask, past, what is added, past's length)
int onnx_make_attention(struct onnx_maker *m)
{
    struct heads h = heads_said(m);
    const char *bias = onnx_made_input(m, 2);
    onnx_made_allow(m, "num_heads unidirectional scale mask_filter_value", 6);
    if (onnx_made_input(m, 4))
        onnx_made_refuse(m, "a cache (its input 4) is not supported");
    const char *all = onnx_step(m, "MatMul", ONNX_IN(onnx_made_input(m, 0), onnx_made_input(m, 1)),
                                NULL, NULL, 0);
    if (bias)
        all = onnx_step(m, "Add", ONNX_IN(all, bias), NULL, NULL, 0);
    const struct graph_tensor *t = m->r < 0 ? NULL : onnx_made_tensor(m, all);
    if (!t || t->n_dims != 3 || t->dims[2] % 3) {
        onnx_made_refuse(m, "its weight is not that of queries, keys and values of one size");
        return m->r;
    }
    int64_t size = t->dims[2] / 3;
    h.q = step_third(m, all, 2, size, 0);
    h.k = step_third(m, all, 2, size, 1);
    h.v = step_third(m, all, 2, size, 2);
    h.mask = onnx_made_input(m, 3);
    h.added = onnx_made_input(m, 5);
    heads_attend(m, &h);
    return m->r;
}

// MultiHeadAttention(Q, K, V, bias of all three, mask, what is added, past keys, past values)
int onnx_make_heads(struct onnx_maker *m)
{
    struct heads h = heads_said(m);
    const char *const in[3] = {onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 2)};
    const char *bias = onnx_made_input(m, 3), *out[3] = {0};
    int64_t start = 0;
    onnx_made_allow(m, "num_heads unidirectional scale mask_filter_value", 6);
    if (!in[1] || !in[2])
        onnx_made_refuse(m, "keys and values that are packed into its first input are not "
                            "supported");
    for (uint32_t i = 0; i < 3 && m->r == 0; i++) {
        const struct graph_tensor *t = onnx_made_tensor(m, in[i]);
        out[i] = in[i];
        if (!t || !bias || t->n_dims != 3)
            continue;
        int64_t size = t->dims[2];
        // The bias has the three one behind the other, which may be of two sizes.
        const char *part = onnx_step(m, "Slice",
                                     ONNX_IN(bias, onnx_step_ints(m, &start, 1),
                                             onnx_step_ints(m, &(const int64_t){start + size}, 1)),
                                     NULL, NULL, 0);
        start += size;
        out[i] = onnx_step(m, "Add", ONNX_IN(in[i], part), NULL, NULL, 0);
    }
    if (m->r < 0)
        return m->r;
    h.q = out[0];
    h.k = out[1];
    h.v = out[2];
    h.mask = onnx_made_input(m, 4);
    h.added = onnx_made_input(m, 5);
    heads_attend(m, &h);
    return m->r;
}
