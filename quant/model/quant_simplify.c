// What is constant, and what convolutions can take in, is computed here once.
#include "quant/model/quant_simplify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"

// Elements that may be made of all constants of a model.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define MOST_FILLED ((size_t)1 << 16)
#else
#define MOST_FILLED ((size_t)1 << 28)
#endif

// ---- constants ----

struct simplifying {
    struct quant_model *m;
    struct quant_index *x;
    size_t left; // elements that may be made yet
    struct error *e;
};

// `out` is a constant from now on, for the nodes behind, too.
static int simplify_put(const struct simplifying *s, struct quant_edge *out, const int64_t *dims,
                        size_t n_dims, const float *values, size_t n)
{
    Quant__Tensor *t = quant_model_constant(s->m, out->name, QUANT_FLOAT, n_dims, dims, values,
                                            n * sizeof *values);
    if (!t)
        return error_no_memory(s->e, "a constant", n * sizeof *values);
    out->constant = t;
    return 1;
}

// The elements of a one-element value, float where it is not said.
static int simplify_fill(struct simplifying *s, const Quant__Node *n, struct quant_edge *out,
                         const int64_t *dims, size_t n_dims)
{
    const Quant__Attribute *value = quant_attr(n, "value");
    Quant__Tensor shape = QUANT__TENSOR__INIT;
    cleanup(free_p) float *one = NULL;
    shape.n_dims = n_dims;
    shape.dims = (int64_t *)(uintptr_t)dims;
    size_t count = quant_constant_count(&shape);
    if (count > s->left)
        return error_set(s->e, STATUS_MODEL_INVALID,
                         "node %s makes a constant of %zu elements; all constants may have %zu",
                         quant_node_name(n), count, MOST_FILLED);
    s->left -= count;
    int r = value && value->t ? quant_constant_floats(s->m, value->t, &one, s->e) : 0;
    if (r < 0)
        return r;
    cleanup(free_p) float *all = malloc(count ? count * sizeof *all : 1);
    if (!all)
        return error_no_memory(s->e, "a constant", count * sizeof *all);
    float with = one && quant_constant_count(value->t) == 1 ? *one : 0;
    for (size_t i = 0; i < count; i++)
        all[i] = with;
    return simplify_put(s, out, dims, n_dims, all, count);
}

// A Constant whose value is a number, or a list of them.
static int simplify_numbers(const struct simplifying *s, const Quant__Node *n,
                            struct quant_edge *out)
{
    const Quant__Attribute *one = quant_attr(n, "value_float"),
                           *list = quant_attr(n, "value_floats");
    if (one && one->has_f)
        return simplify_put(s, out, NULL, 0, &one->f, 1);
    int64_t dim = list ? (int64_t)list->n_floats : 0;
    return dim ? simplify_put(s, out, &dim, 1, list->floats, list->n_floats) : 0;
}

// The dims that Reshape's constant shape gives to `t`; false: they do not fit.
static bool simplify_reshaped(const Quant__Tensor *t, const Quant__Tensor *shape, int64_t *dims,
                              size_t *ret_n)
{
    size_t n, known = 1, open = SIZE_MAX, all = quant_constant_count(t);
    if (!quant_constant_ints(shape, dims, QUANT_MAX_DIMS, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (dims[i] == 0 && i < t->n_dims)
            dims[i] = t->dims[i];
        if (dims[i] == -1 && open == SIZE_MAX)
            open = i;
        else if (dims[i] <= 0 || __builtin_mul_overflow(known, (size_t)dims[i], &known))
            return false;
    }
    if (open != SIZE_MAX) {
        if (all % known)
            return false;
        dims[open] = (int64_t)(all / known);
        known = all;
    }
    *ret_n = n;
    return known == all;
}

// Unsqueeze's dims: 1 at the axes, those of `t` in order between them.
static bool simplify_unsqueezed(const Quant__Tensor *t, const Quant__Tensor *axes, int64_t *dims,
                                size_t *ret_n)
{
    int64_t at[QUANT_MAX_DIMS];
    bool is_new[QUANT_MAX_DIMS] = {false};
    size_t n_axes, n, from = 0;
    if (!quant_constant_ints(axes, at, QUANT_MAX_DIMS, &n_axes) ||
        (n = t->n_dims + n_axes) > QUANT_MAX_DIMS)
        return false;
    for (size_t i = 0; i < n_axes; i++) {
        int64_t axis = at[i] < 0 ? at[i] + (int64_t)n : at[i];
        if (axis < 0 || axis >= (int64_t)n || is_new[axis])
            return false;
        is_new[axis] = true;
    }
    for (size_t i = 0; i < n; i++)
        dims[i] = is_new[i] ? 1 : t->dims[from++];
    *ret_n = n;
    return true;
}

// The same elements under another name and shape.
static int simplify_alias(struct simplifying *s, const Quant__Tensor *t, struct quant_edge *out,
                          const int64_t *dims, size_t n_dims)
{
    cleanup(free_p) float *values = NULL;
    size_t n = quant_constant_count(t);
    if (n > s->left)
        return 0;
    s->left -= n;
    int r = quant_constant_floats(s->m, t, &values, s->e);
    return r < 0 ? r : simplify_put(s, out, dims, n_dims, values, n);
}

// Where dimension i of the result comes from; false: it is no order of n dimensions.
static bool simplify_order(const Quant__Node *n, size_t n_dims, size_t *from)
{
    const Quant__Attribute *perm = quant_attr(n, "perm");
    bool seen[QUANT_MAX_DIMS] = {false};
    if (n_dims > QUANT_MAX_DIMS || (perm && perm->n_ints != n_dims))
        return false;
    for (size_t i = 0; i < n_dims; i++) {
        int64_t p = perm ? perm->ints[i] : (int64_t)(n_dims - 1 - i);
        if (p < 0 || p >= (int64_t)n_dims || seen[p])
            return false;
        seen[p] = true;
        from[i] = (size_t)p;
    }
    return true;
}

static int simplify_transpose(struct simplifying *s, const Quant__Node *node,
                              const Quant__Tensor *t, struct quant_edge *out)
{
    cleanup(free_p) float *values = NULL;
    size_t from[QUANT_MAX_DIMS], steps[QUANT_MAX_DIMS], n = quant_constant_count(t);
    int64_t dims[QUANT_MAX_DIMS], at[QUANT_MAX_DIMS] = {0};
    if (!n || n > s->left || !simplify_order(node, t->n_dims, from))
        return 0;
    s->left -= n;
    int r = quant_constant_floats(s->m, t, &values, s->e);
    cleanup(free_p) float *moved = r == 0 ? malloc(n * sizeof *moved) : NULL;
    if (r < 0 || !moved)
        return r < 0 ? r : error_no_memory(s->e, "a constant", n * sizeof *moved);
    for (size_t i = 0; i < t->n_dims; i++) {
        dims[i] = t->dims[from[i]];
        steps[i] = 1;
        for (size_t k = from[i] + 1; k < t->n_dims; k++)
            steps[i] *= (size_t)t->dims[k];
    }
    size_t place = 0; // in `values`, of the index `at` of the result
    for (size_t i = 0; i < n; i++) {
        moved[i] = values[place];
        for (size_t k = t->n_dims; k-- > 0;) {
            place += steps[k];
            if (++at[k] < dims[k])
                break;
            place -= steps[k] * (size_t)dims[k];
            at[k] = 0;
        }
    }
    return simplify_put(s, out, dims, t->n_dims, moved, n);
}

// 1: the node is a constant now. 0: it stays.
static int simplify_node(struct simplifying *s, Quant__Node *n)
{
    const struct quant_edge *first = quant_index_find(s->x, quant_input(n, 0));
    const struct quant_edge *second = quant_index_find(s->x, quant_input(n, 1));
    struct quant_edge *out = quant_index_find(s->x, quant_output(n, 0));
    int64_t dims[QUANT_MAX_DIMS];
    size_t n_dims;
    if (quant_is(n, "Sum") && n->n_input == 2 && (n->op_type = quant_pool_text(&s->m->pool, "Add")))
        return 0;
    if (quant_is(n, "Constant") && out && !out->is_output)
        return simplify_numbers(s, n, out);
    if (!first || !first->constant || !out || out->is_output || out->type != QUANT_FLOAT)
        return 0;
    const Quant__Tensor *t = first->constant, *shape = second ? second->constant : NULL;
    if (quant_is(n, "ConstantOfShape") && quant_constant_ints(t, dims, QUANT_MAX_DIMS, &n_dims))
        return simplify_fill(s, n, out, dims, n_dims);
    if (first->type != QUANT_FLOAT)
        return 0;
    if ((quant_is(n, "Reshape") && shape && simplify_reshaped(t, shape, dims, &n_dims)) ||
        (quant_is(n, "Unsqueeze") && shape && simplify_unsqueezed(t, shape, dims, &n_dims)))
        return simplify_alias(s, t, out, dims, n_dims);
    if ((quant_is(n, "Identity") || quant_is(n, "Cast")) && n->n_input == 1)
        return simplify_alias(s, t, out, t->dims, t->n_dims);
    return quant_is(n, "Transpose") ? simplify_transpose(s, n, t, out) : 0;
}

// ---- factors of Gemm ----

// A constant of the node's own, which others may share no more. `text` NULL: no memory.
static char *simplify_own_constant(struct quant_model *m, const struct quant_index *x,
                                   const Quant__Node *n, const char *what, const float *values,
                                   size_t n_dims, const int64_t *dims)
{
    size_t count = 1;
    char *text = quant_index_fresh(x, &m->pool, "%s_%s", quant_output(n, 0), what);
    for (size_t i = 0; i < n_dims; i++)
        count *= (size_t)dims[i];
    return text && quant_model_constant(m, text, QUANT_FLOAT, n_dims, dims, values,
                                        count * sizeof *values)
               ? text
               : NULL;
}

// False: some product is not finite.
static bool simplify_times(float *values, size_t n, float factor)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        values[i] *= factor;
        finite &= isfinite(values[i]);
    }
    return finite;
}

// beta * bias as one number for each output, malloc'ed. *ret NULL: it is not of that kind.
static int simplify_gemm_bias(const struct quant_model *m, const Quant__Tensor *t, size_t outputs,
                              float beta, float **ret, struct error *e)
{
    cleanup(free_p) float *given = NULL;
    size_t count = quant_constant_count(t);
    int r = count == 1 || count == outputs ? quant_constant_floats(m, t, &given, e) : 0;
    bool columns = count == 1 || (t->n_dims && (size_t)t->dims[t->n_dims - 1] == outputs);
    *ret = NULL;
    if (r < 0 || !given || !columns || !simplify_times(given, count, beta))
        return r;
    float *all = malloc(outputs * sizeof *all);
    if (!all)
        return error_no_memory(e, "a bias", outputs);
    for (size_t i = 0; i < outputs; i++)
        all[i] = given[count == 1 ? 0 : i];
    *ret = all;
    return 0;
}

// Whether a Gemm with a constant weight is as products are wanted: without factors, and with a bias
// that is one list.
static bool simplify_gemm_is_plain(const Quant__Node *n, const Quant__Tensor *bias, int64_t outputs)
{
    return quant_attr_float(n, "alpha", 1) == 1 && quant_attr_float(n, "beta", 1) == 1 &&
           (!bias || (bias->n_dims == 1 && bias->dims[0] == outputs));
}

// alpha goes into the weight, beta into the bias, which is dropped where it counts for nothing, and
// spread where it is one number. Where one of them is computed, or is not of the usual form, the
// node stays as it is.
static int simplify_gemm(struct quant_model *m, const struct quant_index *x, Quant__Node *n,
                         struct error *e)
{
    float alpha = quant_attr_float(n, "alpha", 1), beta = quant_attr_float(n, "beta", 1);
    const Quant__Tensor *w = quant_index_weight(x, n, 1), *b = quant_index_weight(x, n, 2);
    bool has_bias = *quant_input(n, 2) && beta != 0;
    if (!quant_is(n, "Gemm") || !*quant_output(n, 0) || alpha == 0 || !w || w->n_dims != 2 ||
        !quant_constant_count(w) || (has_bias && !b))
        return 0;
    int64_t outputs = w->dims[quant_attr_int(n, "transB", 0) ? 0 : 1];
    cleanup(free_p) float *weight = NULL, *bias = NULL;
    if (simplify_gemm_is_plain(n, b, outputs))
        return 0;
    int r = alpha == 1 ? 0 : quant_constant_floats(m, w, &weight, e);
    if (r == 0 && has_bias)
        r = simplify_gemm_bias(m, b, (size_t)outputs, beta, &bias, e);
    if (r < 0 || (has_bias && !bias) ||
        (weight && !simplify_times(weight, quant_constant_count(w), alpha)))
        return r;
    char *own = weight ? simplify_own_constant(m, x, n, "weight", weight, 2, w->dims) : n->input[1];
    char *shift = bias ? simplify_own_constant(m, x, n, "bias", bias, 1, &outputs) : NULL;
    if (!own || (bias && !shift))
        return error_no_memory(e, "a weight", 0);
    n->input[1] = own;
    if (shift)
        n->input[2] = shift;
    else
        n->n_input = 2;
    quant_attr_remove(n, "alpha");
    quant_attr_remove(n, "beta");
    return 0;
}

int quant_simplify(struct quant_model *m, struct error *e)
{
    struct quant_node_list kept = {0};
    struct quant_index x;
    struct simplifying s = {.m = m, .x = &x, .left = MOST_FILLED, .e = e};
    int r = quant_index_make(&x, m, e);
    size_t n = m->graph->n_node;
    for (size_t i = 0; i < n && r >= 0; i++) {
        r = simplify_node(&s, m->graph->node[i]);
        if (r == 0)
            r = simplify_gemm(m, &x, m->graph->node[i], e);
        if (r == 0 && !quant_model_append(m, &kept, m->graph->node[i]))
            r = error_no_memory(e, "the model", 0);
    }
    quant_index_done(&x);
    if (r >= 0)
        quant_model_take_nodes(m, &kept);
    return r < 0 ? r : 0;
}

// ---- batch normalizations ----

struct fold {
    struct quant_model *m;
    struct quant_index x;
    struct error *e;
};

// A batch normalization as factor and addend of each channel, malloc'ed together.
static int fold_factors(const struct fold *f, const Quant__Node *norm, size_t n, float **ret)
{
    cleanup(free_p) float *gamma = NULL, *beta = NULL, *mean = NULL, *variance = NULL;
    float **values[] = {&gamma, &beta, &mean, &variance};
    for (size_t i = 0; i < 4; i++) {
        const Quant__Tensor *t = quant_index_weight(&f->x, norm, i + 1);
        if (!t || quant_constant_count(t) != n)
            return 0;
        int r = quant_constant_floats(f->m, t, values[i], f->e);
        if (r < 0)
            return r;
    }
    float *both = malloc(2 * n * sizeof *both);
    if (!both)
        return error_no_memory(f->e, "a batch normalization", n);
    double epsilon = (double)quant_attr_float(norm, "epsilon", 1e-5F);
    for (size_t i = 0; i < n; i++) {
        double k = gamma[i] / sqrt(variance[i] + epsilon);
        both[i] = (float)k;
        both[n + i] = (float)(beta[i] - mean[i] * k);
    }
    *ret = both;
    return 1;
}

// New weights and a bias of the convolution, under new names.
static int fold_into(const struct fold *f, Quant__Node *conv, const Quant__Tensor *w,
                     const float *factors)
{
    size_t n = (size_t)w->dims[0], each = quant_constant_count(w) / n;
    const Quant__Tensor *b = quant_index_weight(&f->x, conv, 2);
    cleanup(free_p) float *weights = NULL, *old = NULL;
    cleanup(free_p) float *bias = malloc(n * sizeof *bias);
    if (!bias)
        return error_no_memory(f->e, "a bias", n);
    int r = quant_constant_floats(f->m, w, &weights, f->e);
    if (r == 0 && b)
        r = quant_constant_floats(f->m, b, &old, f->e);
    if (r < 0 || !weights)
        return r;
    for (size_t o = 0; o < n; o++) {
        for (size_t i = 0; i < each; i++)
            weights[o * each + i] *= factors[o];
        bias[o] = (old ? old[o] : 0) * factors[o] + factors[n + o];
    }
    int64_t dim = (int64_t)n;
    char **in = quant_pool_take(&f->m->pool, 3, sizeof *in);
    char *names[2] = {quant_index_fresh(&f->x, &f->m->pool, "%s_folded_w", quant_output(conv, 0)),
                      quant_index_fresh(&f->x, &f->m->pool, "%s_folded_b", quant_output(conv, 0))};
    if (!in || !names[0] || !names[1] ||
        !quant_model_constant(f->m, names[0], QUANT_FLOAT, w->n_dims, w->dims, weights,
                              n * each * sizeof *weights) ||
        !quant_model_constant(f->m, names[1], QUANT_FLOAT, 1, &dim, bias, n * sizeof *bias))
        return error_no_memory(f->e, "a weight", n * each);
    in[0] = conv->input[0];
    in[1] = names[0];
    in[2] = names[1];
    conv->input = in;
    conv->n_input = 3;
    return 1;
}

// 1: `norm` is in the convolution before it, whose output is now that of `norm`.
static int fold_one_norm(const struct fold *f, Quant__Node *norm)
{
    const struct quant_edge *between = quant_index_find(&f->x, quant_input(norm, 0));
    if (!between || between->producer < 0 || quant_index_only_reader(&f->x, between) < 0 ||
        norm->n_output != 1)
        return 0;
    Quant__Node *conv = f->m->graph->node[between->producer];
    const Quant__Tensor *w = quant_is(conv, "Conv") ? quant_index_weight(&f->x, conv, 1) : NULL;
    const Quant__Tensor *b = quant_index_weight(&f->x, conv, 2);
    if (!w || conv->n_output != 1 || w->n_dims < 3 || w->dims[0] <= 0 || !quant_constant_count(w) ||
        (*quant_input(conv, 2) && (!b || quant_constant_count(b) != (size_t)w->dims[0])))
        return 0;
    cleanup(free_p) float *factors = NULL;
    int r = fold_factors(f, norm, (size_t)w->dims[0], &factors);
    if (r == 1)
        r = fold_into(f, conv, w, factors);
    if (r == 1)
        conv->output[0] = norm->output[0];
    return r;
}

int quant_fold_batch_norms(struct quant_model *m, uint32_t *ret_n, struct error *e)
{
    struct quant_node_list kept = {0};
    struct fold f = {.m = m, .e = e};
    uint32_t folded = 0;
    *ret_n = 0;
    if (m->has_subgraphs)
        return 0;
    int r = quant_index_make(&f.x, m, e);
    for (size_t i = 0; i < m->graph->n_node && r >= 0; i++) {
        Quant__Node *n = m->graph->node[i];
        r = quant_is(n, "BatchNormalization") ? fold_one_norm(&f, n) : 0;
        folded += r == 1;
        if (r == 0 && !quant_model_append(m, &kept, n))
            r = error_no_memory(e, "the model", 0);
    }
    quant_index_done(&f.x);
    if (r < 0)
        return r;
    quant_model_take_nodes(m, &kept);
    *ret_n = folded;
    return 0;
}
