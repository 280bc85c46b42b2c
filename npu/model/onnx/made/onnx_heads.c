// Attention, MultiHeadAttention and QAttention of ONNX Runtime's domain, with caches: how their
// inputs become queries, keys and values (onnx_attend()).
#include "npu/model/onnx/onnx_maker.h"

// ---- masks ----

// Of the first `keys` places those below a number for each batch.
static const char *places_below(struct onnx_maker *m, const char *ends, uint32_t batch,
                                uint32_t keys)
{
    const char *place = onnx_step_two(m, "CastLike", onnx_step_places(m, keys), ends, NULL);
    ends = onnx_step_reshaped(m, ends, (const int64_t[]){batch, 1}, 2, NULL);
    return onnx_step_two(m, "Less", place, ends, NULL);
}

// Which keys count, [batch, 1, 1 or queries, keys]: a mask of 1 and 0 for each batch and key, also
// for each query, or for each batch how many of the first ones.
static const char *seen_keys(struct onnx_maker *m, const char *mask, uint32_t batch,
                             uint32_t queries, uint32_t keys)
{
    const struct graph_tensor *t = onnx_made_tensor(m, mask);
    bool known = t && t->n_dims >= 1 && t->n_dims <= 3 && t->dims[0] == batch &&
                 (t->n_dims == 1 || t->dims[t->n_dims - 1] == keys) &&
                 (t->n_dims < 3 || t->dims[1] == queries);
    if (!known) {
        onnx_made_refuse(m, "a mask that has not a number for each batch and key (and query), or "
                            "the length of each batch, is not supported");
        return "";
    }
    const int64_t dims[4] = {batch, 1, t->n_dims == 3 ? queries : 1, keys};
    mask = t->n_dims == 1 ? places_below(m, mask, batch, keys)
                          : onnx_step_cast(m, mask, ONNX_BOOL, NULL);
    return onnx_step_reshaped(m, mask, dims, 4, NULL);
}

// What a mask adds.
static const char *of_mask(struct onnx_maker *m, const char *mask, const struct onnx_heads *h)
{
    const struct graph_tensor *q = onnx_made_tensor(m, h->q), *k = onnx_made_tensor(m, h->k);
    if (!q || !k || q->n_dims != 4 || k->n_dims != 4)
        return NULL;
    float filter = onnx_made_float(m, "mask_filter_value", -10000);
    const char *seen = seen_keys(m, mask, q->dims[0], q->dims[2], k->dims[2]);
    const char *like = onnx_step_cast(m, h->q, ONNX_FLOAT, NULL);
    return onnx_step(m, "Where",
                     ONNX_IN(seen, onnx_step_like(m, 0, like), onnx_step_like(m, filter, like)),
                     NULL, NULL, 0);
}

// What the operators say of their heads.
static struct onnx_heads heads_said(struct onnx_maker *m)
{
    return (struct onnx_heads){.scale = onnx_made_float(m, "scale", 0),
                               .causal = onnx_made_int(m, "unidirectional", 0) != 0};
}

// The rest, once h has queries, keys and values.
static int attend(struct onnx_maker *m, struct onnx_heads *h, const char *mask, const char *added)
{
    const struct graph_tensor *q = onnx_made_tensor(m, h->q), *k = onnx_made_tensor(m, h->k);
    if (!q || !k)
        return m->r;
    h->first = (int64_t)k->dims[2] - q->dims[2];
    h->added[0] = mask ? of_mask(m, mask, h) : NULL;
    h->added[1] = added;
    onnx_join_heads(m, onnx_attend(m, h), onnx_made_output(m, 0));
    return m->r;
}

// ---- Attention ----

// ONNX Runtime keeps keys and values of Attention in one tensor.
// Keys, or values, behind half `i` of a cache [2, batch, heads, length, size].
static const char *behind_past(struct onnx_maker *m, const char *past, int64_t i, const char *x)
{
    const struct graph_tensor *t = past ? onnx_made_tensor(m, past) : NULL;
    if (!past)
        return x;
    if (!t || t->n_dims != 5 || t->dims[0] != 2) {
        onnx_made_refuse(m, "its cache is not one of keys and values");
        return "";
    }
    const int64_t dims[4] = {t->dims[1], t->dims[2], t->dims[3], t->dims[4]};
    const char *half = onnx_step_sliced(m, past, 0, i, i + 1, 1);
    return onnx_step_joined(m, onnx_step_reshaped(m, half, dims, 4, NULL), x, 2, NULL);
}

// Keys and values as a cache.
static void keep_present(struct onnx_maker *m, const char *k, const char *v)
{
    const struct graph_tensor *t = onnx_made_output(m, 1) ? onnx_made_tensor(m, k) : NULL;
    if (!t)
        return;
    const int64_t dims[5] = {1, t->dims[0], t->dims[1], t->dims[2], t->dims[3]};
    onnx_step_joined(m, onnx_step_reshaped(m, k, dims, 5, NULL),
                     onnx_step_reshaped(m, v, dims, 5, NULL), 0, onnx_made_output(m, 1));
}

// all: queries, keys and values side by side, [batch, length, …].
static int attend_to(struct onnx_maker *m, const char *all, const char *mask, const char *past,
                     const char *added)
{
    struct onnx_heads h = heads_said(m);
    const struct graph_tensor *t = m->r < 0 ? NULL : onnx_made_tensor(m, all);
    int64_t sizes[ONNX_MAX_SHAPE], heads = onnx_made_int(m, "num_heads", 0);
    uint32_t n;
    onnx_made_fail(m, onnx_ints(m->l, "qkv_hidden_sizes", sizes, &n, m->e));
    if (t && !n && t->n_dims == 3 && t->dims[2] % 3 == 0)
        sizes[0] = sizes[1] = sizes[2] = t->dims[2] / 3;
    else if (!t || n != 3 || t->n_dims != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 ||
             sizes[0] > t->dims[2] || sizes[1] > t->dims[2] ||
             sizes[0] + sizes[1] + sizes[2] != t->dims[2])
        onnx_made_refuse(m, "its weight is not that of queries, keys and values");
    const char *parts[3] = {"", "", ""};
    for (int64_t i = 0, at = 0; i < 3 && m->r == 0; at += sizes[i++])
        parts[i] = onnx_split_heads(m, onnx_step_sliced(m, all, 2, at, at + sizes[i], 1), heads);
    h.q = parts[0];
    h.k = behind_past(m, past, 0, parts[1]);
    h.v = behind_past(m, past, 1, parts[2]);
    keep_present(m, h.k, h.v);
    return attend(m, &h, mask, added);
}

// Attention(x, weight of all three, bias, mask, past, what is added, past's length). The past's
// length is for caches with room, which ONNX Runtime has on GPUs alone: it is refused.
int onnx_make_attention(struct onnx_maker *m)
{
    const char *bias = onnx_made_input(m, 2);
    onnx_made_allow(m, "num_heads unidirectional scale mask_filter_value qkv_hidden_sizes", 6);
    const char *all =
        onnx_step_two(m, "MatMul", onnx_made_input(m, 0), onnx_made_input(m, 1), NULL);
    if (bias)
        all = onnx_step_two(m, "Add", all, bias, NULL);
    return attend_to(m, all, onnx_made_input(m, 3), onnx_made_input(m, 4), onnx_made_input(m, 5));
}

// Integers are multiplied as such, and scaled before the bias: what MatMulIntegerToFloat does.
// QAttention(x, weight, bias, scale of x, of the weight, mask, zero point of x, of the weight,
// past)
int onnx_make_attention_of_bytes(struct onnx_maker *m)
{
    const char *of_x = onnx_made_input(m, 6), *of_weight = onnx_made_input(m, 7);
    onnx_made_allow(m, "num_heads unidirectional scale mask_filter_value", 9);
    if (!onnx_made_input(m, 2))
        onnx_made_refuse(m, "its bias is missing");
    const char *const in[4] = {onnx_made_input(m, 0), onnx_made_input(m, 1), of_x, of_weight};
    const char *all = onnx_real_product(m, in, onnx_made_input(m, 3), onnx_made_input(m, 4),
                                        onnx_made_input(m, 2), NULL);
    return attend_to(m, all, onnx_made_input(m, 5), onnx_made_input(m, 8), NULL);
}

// ---- MultiHeadAttention ----

// Part i of a bias that has queries', keys' and values' one behind the other, added to x.
static const char *with_bias(struct onnx_maker *m, const char *x, const char *bias, int64_t *start)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (!t || !bias || t->n_dims != 3)
        return x;
    const int64_t size = t->dims[2];
    const char *part = onnx_step_sliced(m, bias, 0, *start, *start + size, 1);
    *start += size;
    return onnx_step_two(m, "Add", x, part, NULL);
}

// Keys and values of three dimensions, or as heads already (another sequence's).
static const char *heads_of(struct onnx_maker *m, const char *x, int64_t n)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    return t && t->n_dims == 4 ? x : onnx_split_heads(m, x, n);
}

// A cache of earlier keys in front of the new ones; both together may be an output of the node.
static const char *behind_and_kept(struct onnx_maker *m, const char *past, const char *x,
                                   const char *present)
{
    if (past)
        return onnx_step_joined(m, past, x, 2, present);
    return present ? onnx_step_one(m, "Identity", x, present) : x;
}

// MultiHeadAttention(Q, K, V, bias of all three, mask, what is added, past keys, past values)
int onnx_make_heads(struct onnx_maker *m)
{
    struct onnx_heads h = heads_said(m);
    const char *in[3] = {onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 2)};
    const char *past[2] = {onnx_made_input(m, 6), onnx_made_input(m, 7)};
    int64_t start = 0, n = onnx_made_int(m, "num_heads", 0);
    onnx_made_allow(m, "num_heads unidirectional scale mask_filter_value", 8);
    if (!in[1] || !in[2])
        onnx_made_refuse(m, "keys and values that are packed into its other inputs are not "
                            "supported");
    if (!past[0] != !past[1])
        onnx_made_refuse(m, "it has half a cache");
    for (uint32_t i = 0; i < 3 && m->r == 0; i++)
        in[i] = with_bias(m, in[i], onnx_made_input(m, 3), &start);
    if (m->r < 0)
        return m->r;
    h.q = onnx_split_heads(m, in[0], n);
    h.k = behind_and_kept(m, past[0], heads_of(m, in[1], n), onnx_made_output(m, 1));
    h.v = behind_and_kept(m, past[1], heads_of(m, in[2], n), onnx_made_output(m, 2));
    return attend(m, &h, onnx_made_input(m, 4), onnx_made_input(m, 5));
}
