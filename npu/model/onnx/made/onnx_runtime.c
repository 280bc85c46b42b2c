// Operators of ONNX Runtime's own domain, which its optimizers and quantizers write, as several of
// the standard. What they compute: ONNX Runtime's docs/ContribOperators.md.
#include "npu/model/onnx/onnx_maker.h"

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
        onnx_step_one(m, "Identity", x, out);
}

#define MAX_OWN 16

// The node's attributes but these of its activation (separated by spaces).
static uint32_t own_attributes(struct onnx_maker *m, const char *activation,
                               struct onnx_attr dst[MAX_OWN])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->of->n_attrs; i++) {
        if (onnx_has_word(activation, m->of->attrs[i].name))
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
    onnx_made_fail(m, onnx_floats(m->l, "activation_params", v, &n, m->e));
    uint32_t n_attrs = own_attributes(m, "activation activation_params", attrs);
    const char *bias = onnx_made_input(m, 2), *added = onnx_made_input(m, 3);
    const char *y =
        onnx_step(m, "Conv", ONNX_IN(onnx_made_input(m, 0), onnx_made_input(m, 1), bias), NULL,
                  attrs, n_attrs);
    step_activation(m, added ? onnx_step_two(m, "Add", y, added, NULL) : y, v, n);
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
            v[n++] = onnx_made_float(m, names[i], 0);
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
    if (onnx_made_int(m, "transBatchA", 0) || onnx_made_int(m, "transBatchB", 0))
        onnx_made_refuse(m, "transBatchA and transBatchB are not supported");
    const char *a = onnx_made_input(m, 0), *b = onnx_made_input(m, 1);
    float alpha = onnx_made_float(m, "alpha", 1);
    if (onnx_made_int(m, "transA", 0))
        a = step_turned(m, a);
    if (onnx_made_int(m, "transB", 0))
        b = step_turned(m, b);
    const char *y = onnx_step_two(m, "MatMul", a, b, alpha == 1 ? onnx_made_output(m, 0) : NULL);
    if (alpha != 1)
        onnx_step_two(m, "Mul", y, onnx_step_like(m, alpha, y), onnx_made_output(m, 0));
    return m->r;
}

const char *onnx_real_product(struct onnx_maker *m, const char *const in[4], const char *scale_a,
                              const char *scale_b, const char *bias, const char *out)
{
    const char *scale = onnx_step_two(m, "Mul", scale_a, scale_b, NULL);
    const char *sums =
        onnx_step(m, "MatMulInteger", ONNX_IN(in[0], in[1], in[2] ? in[2] : "", in[3] ? in[3] : ""),
                  NULL, NULL, 0);
    const char *real = onnx_step_cast(m, sums, ONNX_FLOAT, NULL);
    const char *y = onnx_step_two(m, "Mul", real, scale, bias ? NULL : out);
    return bias ? onnx_step_two(m, "Add", y, bias, out) : y;
}

// (A, B, scale of A, of B, zero point of A, of B, bias)
int onnx_make_integer_product(struct onnx_maker *m)
{
    onnx_made_allow(m, "", 7);
    const char *in[4] = {onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 4),
                         onnx_made_input(m, 5)};
    onnx_real_product(m, in, onnx_made_input(m, 2), onnx_made_input(m, 3), onnx_made_input(m, 6),
                      onnx_made_output(m, 0));
    return m->r;
}

// (A of floats, B, scale of B, zero point of B, bias)
int onnx_make_dynamic_product(struct onnx_maker *m)
{
    const char *bytes[3]; // with their scale and zero point
    onnx_made_allow(m, "", 5);
    onnx_steps(m, "DynamicQuantizeLinear", ONNX_IN(onnx_made_input(m, 0)), bytes, 3);
    const char *in[4] = {bytes[0], onnx_made_input(m, 1), bytes[2], onnx_made_input(m, 3)};
    onnx_real_product(m, in, bytes[1], onnx_made_input(m, 2), onnx_made_input(m, 4),
                      onnx_made_output(m, 0));
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
        x = onnx_step_two(m, "Add", x, onnx_made_input(m, 1), NULL);
    onnx_step(m, "Gelu", ONNX_IN(x), onnx_made_output(m, 0), &fast,
              strcmp(m->of->op, "FastGelu") == 0);
    return m->r;
}

// x · sigmoid(alpha · x), with an alpha of its own: QuickGelu, and Swish of operator set 24.
int onnx_make_quick_gelu(struct onnx_maker *m)
{
    const char *x = onnx_made_input(m, 0);
    onnx_made_allow(m, "alpha", 1);
    const char *scaled = onnx_step_two(
        m, "Mul", x,
        onnx_step_like(m, onnx_made_float(m, "alpha", strcmp(m->of->op, "Swish") == 0 ? 1 : 1.702f),
                       x),
        NULL);
    onnx_step_two(m, "Mul", x, onnx_step_one(m, "Sigmoid", scaled, NULL), onnx_made_output(m, 0));
    return m->r;
}

// ---- normalization ----

// x / sqrt(mean(x²) + epsilon) · scale, along the last dimension.
static void step_rms(struct onnx_maker *m, const char *x, const char *scale, float epsilon,
                     const char *out)
{
    static const int64_t last = -1;
    const struct onnx_attr axes = {.name = "axes", .ints = {(int64_t *)(uintptr_t)&last, 1, 0}};
    const char *squares = onnx_step_two(m, "Mul", x, x, NULL);
    bool as_input = m->l->f->opset >= 18;
    const char *mean =
        onnx_step(m, "ReduceMean", ONNX_IN(squares, as_input ? onnx_step_ints(m, &last, 1) : NULL),
                  NULL, &axes, !as_input);
    const char *above = onnx_step_two(m, "Add", mean, onnx_step_like(m, epsilon, x), NULL);
    const char *y = onnx_step_two(m, "Div", x, onnx_step_one(m, "Sqrt", above, NULL), NULL);
    onnx_step_two(m, "Mul", y, scale, out);
}

// Along the last dimension, without its scale's own bias where there is none.
static void layer_norm(struct onnx_maker *m, const char *x, const char *scale, const char *bias,
                       float epsilon, const char *out)
{
    const struct onnx_attr attrs[] = {{.name = "epsilon", .f = epsilon}, {.name = "axis", .i = -1}};
    onnx_step(m, "LayerNormalization", ONNX_IN(x, scale, bias), out, attrs, 2);
}

// From an axis on that is not the last one: those dimensions are one between two reshapes.
static void rms_of_several(struct onnx_maker *m, int64_t axis, float epsilon)
{
    const char *x = onnx_made_input(m, 0), *scale = onnx_made_input(m, 1);
    const struct graph_tensor *t = onnx_made_tensor(m, x), *s = onnx_made_tensor(m, scale);
    int64_t dims[GRAPH_MAX_DIMS], flat[] = {1, 1};
    const int64_t all = -1;
    axis = t && axis < 0 ? axis + t->n_dims : axis;
    if (!t || !s)
        return;
    if (axis < 0 || axis >= t->n_dims || s->n_dims + axis != t->n_dims || !t->n_elems ||
        memcmp(s->dims, t->dims + axis, s->n_dims * sizeof *s->dims) != 0) {
        onnx_made_refuse(m, "its scale has not the dimensions from its axis on");
        return;
    }
    const uint32_t n = t->n_dims;
    for (uint32_t i = 0; i < n; i++) {
        dims[i] = t->dims[i];
        flat[i >= axis] *= dims[i];
    }
    const char *y = onnx_made_name(m);
    step_rms(m, onnx_step_reshaped(m, x, flat, 2, NULL),
             onnx_step_reshaped(m, scale, &all, 1, NULL), epsilon, y);
    onnx_step_reshaped(m, y, dims, n, onnx_made_output(m, 0));
}

// SimplifiedLayerNormalization, which ONNX Runtime has among the standard's, and ONNX's own of
// operator set 23.
int onnx_make_rms(struct onnx_maker *m)
{
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    onnx_made_allow(m, "axis epsilon stash_type", 2);
    int64_t axis = onnx_made_int(m, "axis", -1);
    const bool last = !x || axis == -1 || axis == (int64_t)x->n_dims - 1;
    if (onnx_made_int(m, "stash_type", ONNX_FLOAT) != ONNX_FLOAT)
        onnx_made_refuse(m, "a stash_type other than floats is not supported");
    if (onnx_made_output(m, 1))
        onnx_made_refuse(m, "its output 1 is not supported");
    const float epsilon = onnx_made_float(m, "epsilon", 1e-5f);
    if (last)
        step_rms(m, onnx_made_input(m, 0), onnx_made_input(m, 1), epsilon, onnx_made_output(m, 0));
    else
        rms_of_several(m, axis, epsilon);
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
        onnx_step_two(m, "Add", onnx_made_input(m, 0), onnx_made_input(m, 1), bias ? NULL : kept);
    if (bias)
        sum = onnx_step_two(m, "Add", sum, bias, kept);
    float epsilon = onnx_made_float(m, "epsilon", 1e-12f);
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
        onnx_step_one(m, "ConstantOfShape", onnx_step_ints(m, &(const int64_t){lines}, 1), NULL);
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
    const char *sum = onnx_step_two(m, "Gather", onnx_made_input(m, 2), ids, NULL);
    if (positions) {
        positions = onnx_step_two(m, "Gather", onnx_made_input(m, 3), positions, NULL);
    } else {
        const char *start = onnx_step_ints(m, (const int64_t[]){0}, 1);
        const char *end = onnx_step_ints(m, (const int64_t[]){t->dims[1]}, 1);
        positions =
            onnx_step(m, "Slice", ONNX_IN(onnx_made_input(m, 3), start, end), NULL, NULL, 0);
    }
    sum = onnx_step_two(m, "Add", sum, positions, NULL);
    if (onnx_made_input(m, 1))
        sum = onnx_step_two(
            m, "Add", sum,
            onnx_step_two(m, "Gather", onnx_made_input(m, 4), onnx_made_input(m, 1), NULL), NULL);
    if (onnx_made_output(m, 2))
        sum = onnx_step_one(m, "Identity", sum, onnx_made_output(m, 2));
    layer_norm(m, sum, onnx_made_input(m, 5), onnx_made_input(m, 6),
               onnx_made_float(m, "epsilon", 1e-12f), onnx_made_output(m, 0));
    return m->r;
}
