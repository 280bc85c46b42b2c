// Operators of ONNX Runtime's own domain, which its optimizers and quantizers write, as several of
// the standard, and what such functions share (onnx_maker.h). What they compute: ONNX Runtime's
// docs/ContribOperators.md.
#include <stdio.h>

#include "base/bytes.h"
#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

// ---- steps ----

const char *onnx_made_input(const struct onnx_maker *m, uint32_t i)
{
    return i < m->of->n_inputs && m->of->inputs[i][0] ? m->of->inputs[i] : NULL;
}

const char *onnx_made_output(const struct onnx_maker *m, uint32_t i)
{
    return i < m->of->n_outputs && m->of->outputs[i][0] ? m->of->outputs[i] : NULL;
}

// The first failure stays, with its words.
static void made_fail(struct onnx_maker *m, int r)
{
    m->r = m->r < 0 ? m->r : r;
}

void onnx_made_refuse(struct onnx_maker *m, const char *words)
{
    m->l->node = m->of;
    if (m->r == 0)
        m->r = onnx_refuse(m->l, m->e, "%s", words);
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

void onnx_made_allow(struct onnx_maker *m, const char *attributes, uint32_t n_inputs)
{
    m->l->node = m->of;
    for (uint32_t i = 0; i < m->of->n_attrs && m->r == 0; i++)
        if (!has_word(attributes, m->of->attrs[i].name))
            m->r = onnx_refuse(m->l, m->e, "its attribute \"%s\" is not supported",
                               m->of->attrs[i].name);
    for (uint32_t i = n_inputs; i < m->of->n_inputs && m->r == 0; i++)
        if (m->of->inputs[i][0])
            m->r =
                onnx_refuse(m->l, m->e, "its input %u (%s) is not supported", i, m->of->inputs[i]);
}

const struct graph_tensor *onnx_made_tensor(struct onnx_maker *m, const char *name)
{
    int32_t t = name && m->r == 0 ? onnx_names_find(m->l->names, name) : -1;
    if (t < 0)
        onnx_made_refuse(m, "an input of it is missing");
    else
        made_fail(m, onnx_unpacked(m->l, t, m->e));
    return m->r < 0 ? NULL : &m->l->g->tensors[t];
}

// Names between steps begin with the node's first output, which is unique.
const char *onnx_made_name(struct onnx_maker *m)
{
    char text[300];
    const char *of = "";
    for (uint32_t i = 0; i < m->of->n_outputs && !of[0]; i++)
        of = m->of->outputs[i];
    int n = snprintf(text, sizeof text, "%.200s/step%u", of, m->n_steps++);
    const char *name = pool_text(&m->l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
    if (!name)
        made_fail(m, error_no_memory(m->e, "the graph", (size_t)n));
    return name ? name : "";
}

// Lowers an operator of the standard in place of a part of the node, unless a step before has
// failed.
static void step_lower(struct onnx_maker *m, const char *op,
                       const char *const in[ONNX_STEP_INPUTS + 1], const char *const *outs,
                       uint32_t n_outs, const struct onnx_attr *attrs, uint32_t n_attrs)
{
    struct pool *pool = &m->l->g->pool;
    struct onnx_node *n = pool_alloc(pool, 1, sizeof *n);
    const char **edges = pool_alloc(pool, ONNX_STEP_INPUTS + n_outs, sizeof *edges);
    struct onnx_attr *own = pool_alloc(pool, n_attrs + 1, sizeof *own);
    if (!n || !edges || !own) {
        made_fail(m, error_no_memory(m->e, "the graph", 0));
        return;
    }
    if (m->r < 0)
        return;
    *n = (struct onnx_node){.name = m->of->name,
                            .op = op,
                            .domain = "",
                            .overload = "",
                            .n_outputs = n_outs,
                            .n_attrs = n_attrs,
                            .inputs = edges,
                            .outputs = edges + ONNX_STEP_INPUTS,
                            .attrs = own};
    for (; in[n->n_inputs]; n->n_inputs++)
        n->inputs[n->n_inputs] = in[n->n_inputs];
    memcpy(n->outputs, outs, n_outs * sizeof *outs);
    if (n_attrs)
        memcpy(own, attrs, n_attrs * sizeof *own);
    int r = m->take(m->l, n, m->e);
    if (r < 0)
        made_fail(m, error_prefix(m->e, "as a part of %s", m->of->op));
}

const char *onnx_step(struct onnx_maker *m, const char *op,
                      const char *const in[ONNX_STEP_INPUTS + 1], const char *out,
                      const struct onnx_attr *attrs, uint32_t n_attrs)
{
    out = out ? out : onnx_made_name(m);
    step_lower(m, op, in, &out, 1, attrs, n_attrs);
    return out;
}

// A step with n outputs, which get names of their own.
static void step_many(struct onnx_maker *m, const char *op,
                      const char *const in[ONNX_STEP_INPUTS + 1], const char **outs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        outs[i] = onnx_made_name(m);
    step_lower(m, op, in, outs, n, NULL, 0);
}

const char *onnx_step_ints(struct onnx_maker *m, const int64_t *v, uint32_t n)
{
    struct onnx_attr a = {.name = "value_ints"};
    a.ints.items = pool_alloc(&m->l->g->pool, n, sizeof *v);
    a.ints.n = n;
    if (!a.ints.items)
        made_fail(m, error_no_memory(m->e, "the graph", 0));
    else
        memcpy(a.ints.items, v, n * sizeof *v);
    return onnx_step(m, "Constant", ONNX_IN(NULL), NULL, &a, 1);
}

// The number is stored behind the graph, since the constant points to it.
const char *onnx_step_like(struct onnx_maker *m, float v, const char *as)
{
    struct onnx_attr *a = pool_alloc(&m->l->g->pool, 1, sizeof *a); // the constant points into it
    if (!a) {
        made_fail(m, error_no_memory(m->e, "the graph", 0));
        return "";
    }
    *a = (struct onnx_attr){.name = "value_floats"};
    float *own = pool_alloc(&m->l->g->pool, 1, sizeof *own);
    if (!own) {
        made_fail(m, error_no_memory(m->e, "the graph", 0));
        return "";
    }
    *own = v;
    a->floats = (struct bytes){(const uint8_t *)own, sizeof *own};
    const char *c = onnx_step(m, "Constant", ONNX_IN(NULL), NULL, a, 1);
    return onnx_step(m, "CastLike", ONNX_IN(c, as), NULL, NULL, 0);
}

static const char *step_one(struct onnx_maker *m, const char *op, const char *x, const char *out)
{
    return onnx_step(m, op, ONNX_IN(x), out, NULL, 0);
}

static const char *step_two(struct onnx_maker *m, const char *op, const char *a, const char *b,
                            const char *out)
{
    return onnx_step(m, op, ONNX_IN(a, b), out, NULL, 0);
}

static float made_float(const struct onnx_maker *m, const char *name, float otherwise)
{
    m->l->node = m->of;
    return onnx_float(m->l, name, otherwise);
}

static int64_t made_int(const struct onnx_maker *m, const char *name, int64_t otherwise)
{
    m->l->node = m->of;
    return onnx_int(m->l, name, otherwise);
}

// ---- activations behind an operator ----

// The names of an activation's parameters, as ONNX has them, in the order that FusedConv lists
// them.
static const struct {
    const char *op, *first, *second;
} activations[] = {{"Relu", NULL, NULL},
                   {"Tanh", NULL, NULL},
                   {"Sigmoid", NULL, NULL},
                   {"LeakyRelu", "alpha", NULL},
                   {"HardSigmoid", "alpha", "beta"},
                   {"Clip", "min", "max"},
                   {"Elu", "alpha", NULL}};

// The node's last step: its activation with the parameters v[n], or none.
static void step_activation(struct onnx_maker *m, const char *x, const float *v, uint32_t n)
{
    m->l->node = m->of;
    const char *out = onnx_made_output(m, 0);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const char *const names[2] = {activations[i].first, activations[i].second};
        struct onnx_attr attrs[2];
        uint32_t wanted = names[1] ? 2 : names[0] ? 1 : 0;
        if (!onnx_text_is(m->l, "activation", activations[i].op, ""))
            continue;
        if (n != wanted) {
            onnx_made_refuse(m, "its activation has not as many parameters as it should");
            return;
        }
        for (uint32_t k = 0; k < n; k++)
            attrs[k] = (struct onnx_attr){.name = names[k], .f = v[k]};
        if (strcmp(activations[i].op, "Clip") == 0)
            onnx_step(m, "Clip", ONNX_IN(x, onnx_step_like(m, v[0], x), onnx_step_like(m, v[1], x)),
                      out, NULL, 0);
        else
            onnx_step(m, activations[i].op, ONNX_IN(x), out, attrs, n);
        return;
    }
    if (onnx_has_attr(m->l, "activation") && !onnx_text_is(m->l, "activation", "", ""))
        onnx_made_refuse(m, "its activation is not known");
    else
        step_one(m, "Identity", x, out);
}

#define MAX_OWN 16

// The node's attributes but these of its activation (separated by spaces).
static uint32_t own_attributes(struct onnx_maker *m, const char *activation,
                               struct onnx_attr dst[MAX_OWN])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->of->n_attrs; i++) {
        if (has_word(activation, m->of->attrs[i].name))
            continue;
        if (n == MAX_OWN) {
            onnx_made_refuse(m, "it has too many attributes");
            break;
        }
        dst[n++] = m->of->attrs[i];
    }
    return n;
}

// FusedConv(x, weight, bias, what is added before the activation).
int onnx_make_conv(struct onnx_maker *m)
{
    struct onnx_attr attrs[MAX_OWN];
    float v[ONNX_MAX_SHAPE];
    uint32_t n;
    m->l->node = m->of;
    made_fail(m, onnx_floats(m->l, "activation_params", v, &n, m->e));
    uint32_t n_attrs = own_attributes(m, "activation activation_params", attrs);
    const char *bias = onnx_made_input(m, 2), *added = onnx_made_input(m, 3);
    const char *y =
        onnx_step(m, "Conv", ONNX_IN(onnx_made_input(m, 0), onnx_made_input(m, 1), bias), NULL,
                  attrs, n_attrs);
    step_activation(m, added ? step_two(m, "Add", y, added, NULL) : y, v, n);
    return m->r;
}

// FusedGemm(A, B, C): its activation's parameters have an attribute each.
int onnx_make_gemm(struct onnx_maker *m)
{
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    struct onnx_attr attrs[MAX_OWN];
    float v[2] = {0};
    uint32_t n = 0;
    m->l->node = m->of;
    for (uint32_t i = 0; i < 2; i++)
        if (onnx_has_attr(m->l, names[i]))
            v[n++] = made_float(m, names[i], 0);
    uint32_t n_attrs = own_attributes(m, "activation activation_alpha activation_beta", attrs);
    const char *y = onnx_step(
        m, "Gemm", ONNX_IN(onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 2)),
        NULL, attrs, n_attrs);
    step_activation(m, y, v, n);
    return m->r;
}

// ---- products ----

// The last two dimensions change places.
static const char *step_turned(struct onnx_maker *m, const char *x)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t perm[GRAPH_MAX_DIMS];
    if (!t || t->n_dims < 2)
        return x;
    for (uint32_t i = 0; i < t->n_dims; i++)
        perm[i] = i;
    perm[t->n_dims - 1] = t->n_dims - 2;
    perm[t->n_dims - 2] = t->n_dims - 1;
    const struct onnx_attr a = {.name = "perm", .ints = {perm, t->n_dims, 0}};
    return onnx_step(m, "Transpose", ONNX_IN(x), NULL, &a, 1);
}

// FusedMatMul(A, B): alpha · A B, with A or B turned.
int onnx_make_product(struct onnx_maker *m)
{
    onnx_made_allow(m, "alpha transA transB transBatchA transBatchB", 2);
    if (made_int(m, "transBatchA", 0) || made_int(m, "transBatchB", 0))
        onnx_made_refuse(m, "transBatchA and transBatchB are not supported");
    const char *a = onnx_made_input(m, 0), *b = onnx_made_input(m, 1);
    float alpha = made_float(m, "alpha", 1);
    if (made_int(m, "transA", 0))
        a = step_turned(m, a);
    if (made_int(m, "transB", 0))
        b = step_turned(m, b);
    const char *y = step_two(m, "MatMul", a, b, alpha == 1 ? onnx_made_output(m, 0) : NULL);
    if (alpha != 1)
        step_two(m, "Mul", y, onnx_step_like(m, alpha, y), onnx_made_output(m, 0));
    return m->r;
}

// Integers of two matrices with their zero points, times both scales, and a bias.
static void integer_product(struct onnx_maker *m, const char *const in[4], const char *scale_a,
                            const char *scale_b, const char *bias)
{
    struct onnx_attr to = {.name = "to", .i = ONNX_FLOAT};
    const char *scale = step_two(m, "Mul", scale_a, scale_b, NULL);
    const char *sums =
        onnx_step(m, "MatMulInteger", ONNX_IN(in[0], in[1], in[2] ? in[2] : "", in[3] ? in[3] : ""),
                  NULL, NULL, 0);
    const char *real = onnx_step(m, "Cast", ONNX_IN(sums), NULL, &to, 1);
    const char *y = step_two(m, "Mul", real, scale, bias ? NULL : onnx_made_output(m, 0));
    if (bias)
        step_two(m, "Add", y, bias, onnx_made_output(m, 0));
}

// (A, B, scale of A, of B, zero point of A, of B, bias)
int onnx_make_integer_product(struct onnx_maker *m)
{
    onnx_made_allow(m, "", 7);
    const char *in[4] = {onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 4),
                         onnx_made_input(m, 5)};
    integer_product(m, in, onnx_made_input(m, 2), onnx_made_input(m, 3), onnx_made_input(m, 6));
    return m->r;
}

// (A of floats, B, scale of B, zero point of B, bias)
int onnx_make_dynamic_product(struct onnx_maker *m)
{
    const char *bytes[3]; // with their scale and zero point
    onnx_made_allow(m, "", 5);
    step_many(m, "DynamicQuantizeLinear", ONNX_IN(onnx_made_input(m, 0)), bytes, 3);
    const char *in[4] = {bytes[0], onnx_made_input(m, 1), bytes[2], onnx_made_input(m, 3)};
    integer_product(m, in, bytes[1], onnx_made_input(m, 2), onnx_made_input(m, 4));
    return m->r;
}

// ---- weights of 2 to 8 bits in blocks ----

struct packed {
    int64_t k, n, bits, block;
    uint64_t blocks; // of a column
    const uint8_t *weight, *zeros;
    const uint8_t *scales; // floats; of a file, they may lie anywhere
};

// Element i of a list of numbers of so many bits; lower bits come first.
static uint32_t bits_at(const uint8_t *list, uint64_t i, int64_t bits)
{
    uint64_t at = i * (uint64_t)bits;
    return (uint32_t)(list[at / 8] >> at % 8) & ((1u << bits) - 1);
}

// One block, which becomes a part of column n.
static void packed_unpack_block(const struct packed *p, int64_t n, uint64_t block, float *dst)
{
    uint64_t row = (p->blocks * (uint64_t)p->bits + 7) / 8; // zero points of a column
    uint64_t at = (uint64_t)n * p->blocks + block, first = block * (uint64_t)p->block;
    const float scale = bits_float(read_le32(p->scales + 4 * at));
    const uint32_t zero =
        p->zeros ? bits_at(p->zeros + (uint64_t)n * row, block, p->bits) : 1u << (p->bits - 1);
    for (uint64_t i = 0; i < (uint64_t)p->block && first + i < (uint64_t)p->k; i++)
        dst[(first + i) * (uint64_t)p->n + (uint64_t)n] =
            ((float)bits_at(p->weight, at * (uint64_t)p->block + i, p->bits) - (float)zero) * scale;
}

// As a matrix for MatMul, [k][n]: the file has all blocks of a column one behind the other. Columns
// side by side share cache lines.
static void packed_unpack(const struct packed *p, float *dst)
{
    for (uint64_t block = 0; block < p->blocks; block++)
        for (int64_t n = 0; n < p->n; n++)
            packed_unpack_block(p, n, block, dst);
}

// A constant input of so many elements of a type.
static const void *constant_of(struct onnx_maker *m, uint32_t i, enum tensor_type type, uint64_t n)
{
    const struct graph_tensor *t = onnx_made_tensor(m, onnx_made_input(m, i));
    if (t && t->constant && t->type == type && t->n_elems == n)
        return t->data.data;
    onnx_made_refuse(m, "its weight, scales and zero points must be constants (bytes, floats, "
                        "bytes) of the sizes that K, N, bits and block_size give");
    return NULL;
}

// MatMulNBits(A, B [N, blocks, bytes], scales, zero points, order of groups, bias)
int onnx_make_packed_product(struct onnx_maker *m)
{
    struct packed p = {.k = made_int(m, "K", 0),
                       .n = made_int(m, "N", 0),
                       .bits = made_int(m, "bits", 4),
                       .block = made_int(m, "block_size", 0)};
    onnx_made_allow(m, "K N bits block_size accuracy_level", 6);
    if (onnx_made_input(m, 4))
        onnx_made_refuse(m, "an order of its groups (g_idx) is not supported");
    if (p.k < 1 || p.n < 1 || p.k > INT32_MAX || p.n > INT32_MAX || p.block < 16 ||
        p.block > 65536 || (p.bits != 2 && p.bits != 4 && p.bits != 8))
        onnx_made_refuse(m, "2, 4 or 8 bits and blocks of 16 to 65536 are supported");
    if (m->r < 0)
        return m->r;
    p.blocks = (uint64_t)(p.k + p.block - 1) / (uint64_t)p.block;
    uint64_t n_blocks = (uint64_t)p.n * p.blocks, elems = (uint64_t)p.n * (uint64_t)p.k;
    p.weight = constant_of(m, 1, TENSOR_UINT8, n_blocks * (uint64_t)(p.block * p.bits / 8));
    p.scales = constant_of(m, 2, TENSOR_FLOAT32, n_blocks);
    if (onnx_made_input(m, 3))
        p.zeros = constant_of(m, 3, TENSOR_UINT8,
                              (uint64_t)p.n * ((p.blocks * (uint64_t)p.bits + 7) / 8));
    // At most sixteen times what the file has of it.
    float *dst = m->r < 0 ? NULL : pool_alloc(&m->l->g->pool, elems, sizeof *dst);
    if (!dst)
        return m->r < 0 ? m->r : error_no_memory(m->e, "a weight", elems * sizeof *dst);
    packed_unpack(&p, dst);
    m->l->node = m->of;
    const uint32_t dims[2] = {(uint32_t)p.k, (uint32_t)p.n};
    const char *weight = onnx_made_name(m);
    int32_t t = onnx_constant(m->l, TENSOR_FLOAT32, 2, dims, dst, m->e);
    made_fail(m, t < 0 || m->r < 0 ? t : onnx_names_set(m->l->names, weight, t, m->e));
    const char *bias = onnx_made_input(m, 5);
    const char *y =
        step_two(m, "MatMul", onnx_made_input(m, 0), weight, bias ? NULL : onnx_made_output(m, 0));
    if (bias)
        step_two(m, "Add", y, bias, onnx_made_output(m, 0));
    return m->r;
}

// ---- Gelu and its kin ----

// BiasGelu, and FastGelu, which is the one by tanh.
int onnx_make_gelu(struct onnx_maker *m)
{
    const struct onnx_attr fast = {.name = "approximate",
                                   .s = {(const uint8_t *)"tanh", sizeof "tanh" - 1}};
    const char *x = onnx_made_input(m, 0);
    onnx_made_allow(m, "", 2);
    if (onnx_made_input(m, 1))
        x = step_two(m, "Add", x, onnx_made_input(m, 1), NULL);
    onnx_step(m, "Gelu", ONNX_IN(x), onnx_made_output(m, 0), &fast,
              strcmp(m->of->op, "FastGelu") == 0);
    return m->r;
}

// x · sigmoid(alpha · x)
int onnx_make_quick_gelu(struct onnx_maker *m)
{
    const char *x = onnx_made_input(m, 0);
    onnx_made_allow(m, "alpha", 1);
    const char *scaled =
        step_two(m, "Mul", x, onnx_step_like(m, made_float(m, "alpha", 1.702f), x), NULL);
    step_two(m, "Mul", x, step_one(m, "Sigmoid", scaled, NULL), onnx_made_output(m, 0));
    return m->r;
}

// ---- normalization ----

// x / sqrt(mean(x²) + epsilon) · scale, along the last dimension. Halves are normalized as floats
// (ONNX's stash_type 1, and ONNX Runtime's kernels): squares of more than 255 are beyond them.
static void step_rms(struct onnx_maker *m, const char *x, const char *scale, float epsilon,
                     const char *out)
{
    static const int64_t last = -1;
    const struct onnx_attr axes = {.name = "axes", .ints = {(int64_t *)(uintptr_t)&last, 1, 0}};
    const struct onnx_attr to = {.name = "to", .i = ONNX_FLOAT};
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    const char *halves = t && t->type == TENSOR_FLOAT16 ? x : NULL;
    if (halves)
        x = onnx_step(m, "Cast", ONNX_IN(x), NULL, &to, 1);
    const char *squares = step_two(m, "Mul", x, x, NULL);
    bool as_input = m->l->f->opset >= 18;
    const char *mean =
        onnx_step(m, "ReduceMean", ONNX_IN(squares, as_input ? onnx_step_ints(m, &last, 1) : NULL),
                  NULL, &axes, !as_input);
    const char *above = step_two(m, "Add", mean, onnx_step_like(m, epsilon, x), NULL);
    const char *y = step_two(m, "Div", x, step_one(m, "Sqrt", above, NULL), NULL);
    step_two(m, "Mul", halves ? step_two(m, "CastLike", y, halves, NULL) : y, scale, out);
}

// Along the last dimension, without its scale's own bias where there is none.
static void layer_norm(struct onnx_maker *m, const char *x, const char *scale, const char *bias,
                       float epsilon, const char *out)
{
    const struct onnx_attr attrs[] = {{.name = "epsilon", .f = epsilon}, {.name = "axis", .i = -1}};
    onnx_step(m, "LayerNormalization", ONNX_IN(x, scale, bias), out, attrs, 2);
}

// SimplifiedLayerNormalization, which ONNX Runtime has among the standard's, and ONNX's own of
// operator set 23.
int onnx_make_rms(struct onnx_maker *m)
{
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    onnx_made_allow(m, "axis epsilon stash_type", 2);
    int64_t axis = made_int(m, "axis", -1);
    if (x && axis != -1 && axis != (int64_t)x->n_dims - 1)
        onnx_made_refuse(m, "an axis that is not the last one is not supported");
    if (made_int(m, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        onnx_made_refuse(m, "a stash_type other than floats is not supported");
    if (onnx_made_output(m, 1))
        onnx_made_refuse(m, "its output 1 is not supported");
    step_rms(m, onnx_made_input(m, 0), onnx_made_input(m, 1), made_float(m, "epsilon", 1e-5f),
             onnx_made_output(m, 0));
    return m->r;
}

// (x, skip, scale[, beta], bias) -> normalized sum, -, -, sum
int onnx_make_skip(struct onnx_maker *m)
{
    bool simple = strcmp(m->of->op, "SkipSimplifiedLayerNormalization") == 0;
    const char *bias = onnx_made_input(m, simple ? 3 : 4), *kept = onnx_made_output(m, 3);
    onnx_made_allow(m, "epsilon", 5);
    if (onnx_made_output(m, 1) || onnx_made_output(m, 2))
        onnx_made_refuse(m, "its outputs 1 and 2 are not supported");
    const char *sum =
        step_two(m, "Add", onnx_made_input(m, 0), onnx_made_input(m, 1), bias ? NULL : kept);
    if (bias)
        sum = step_two(m, "Add", sum, bias, kept);
    float epsilon = made_float(m, "epsilon", 1e-12f);
    if (simple)
        step_rms(m, sum, onnx_made_input(m, 2), epsilon, onnx_made_output(m, 0));
    else
        layer_norm(m, sum, onnx_made_input(m, 2), onnx_made_input(m, 3), epsilon,
                   onnx_made_output(m, 0));
    return m->r;
}

// How many tokens the mask of each line has; 0 where there is none.
static void count_tokens(struct onnx_maker *m, uint32_t lines)
{
    const struct onnx_attr to = {.name = "to", .i = ONNX_INT32}, drop = {.name = "keepdims"};
    const char *mask = onnx_made_input(m, 7);
    if (mask) {
        mask = onnx_step(m, "Cast", ONNX_IN(mask), NULL, &to, 1);
        onnx_step(m, "ReduceSum", ONNX_IN(mask, onnx_step_ints(m, (const int64_t[]){1}, 1)),
                  onnx_made_output(m, 1), &drop, 1);
        return;
    }
    const char *zeros =
        step_one(m, "ConstantOfShape", onnx_step_ints(m, &(const int64_t){lines}, 1), NULL);
    onnx_step(m, "Cast", ONNX_IN(zeros), onnx_made_output(m, 1), &to, 1);
}

// (ids, segments, words, positions, segments' table, scale, bias, mask, positions' ids)
//   -> normalized sum, number of tokens that the mask has, sum
int onnx_make_embed(struct onnx_maker *m)
{
    const char *ids = onnx_made_input(m, 0), *positions = onnx_made_input(m, 8);
    const struct graph_tensor *t = onnx_made_tensor(m, ids);
    onnx_made_allow(m, "epsilon mask_index_type", 9);
    if (!t || t->n_dims != 2) {
        onnx_made_refuse(m, "ids of two dimensions are supported");
        return m->r;
    }
    if (onnx_made_output(m, 1))
        count_tokens(m, t->dims[0]);
    const char *sum = step_two(m, "Gather", onnx_made_input(m, 2), ids, NULL);
    if (positions) {
        positions = step_two(m, "Gather", onnx_made_input(m, 3), positions, NULL);
    } else {
        const char *start = onnx_step_ints(m, (const int64_t[]){0}, 1);
        const char *end = onnx_step_ints(m, (const int64_t[]){t->dims[1]}, 1);
        positions =
            onnx_step(m, "Slice", ONNX_IN(onnx_made_input(m, 3), start, end), NULL, NULL, 0);
    }
    sum = step_two(m, "Add", sum, positions, NULL);
    if (onnx_made_input(m, 1))
        sum = step_two(m, "Add", sum,
                       step_two(m, "Gather", onnx_made_input(m, 4), onnx_made_input(m, 1), NULL),
                       NULL);
    if (onnx_made_output(m, 2))
        sum = step_one(m, "Identity", sum, onnx_made_output(m, 2));
    layer_norm(m, sum, onnx_made_input(m, 5), onnx_made_input(m, 6),
               made_float(m, "epsilon", 1e-12f), onnx_made_output(m, 0));
    return m->r;
}
