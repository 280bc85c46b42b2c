// What is constant is computed here once.
#include "quant/prepare/quant_simplify.h"

#include <string.h>

#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"

// Elements that may be made of all constants of a model.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define MOST_FILLED ((size_t)1 << 16)
#else
#define MOST_FILLED ((size_t)1 << 28)
#endif

struct simplifying {
    struct quant_model *m;
    struct quant_index *x;
    size_t left; // elements that may be made yet
    struct error *e;
};

// `out` is a constant from now on, for the nodes behind, too. `values`: of the model.
static int simplify_put(const struct simplifying *s, struct quant_edge *out, const int64_t *dims,
                        size_t n_dims, float *values, size_t n)
{
    Quant__Tensor *t = quant_model_take_constant(s->m, out->name, QUANT_FLOAT, n_dims, dims, values,
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
    const float *one = NULL;
    shape.n_dims = n_dims;
    shape.dims = (int64_t *)(uintptr_t)dims;
    size_t count = quant_constant_count(&shape);
    if (count > s->left)
        return error_set(s->e, STATUS_MODEL_INVALID,
                         "node %s makes a constant of %zu elements; all constants may have %zu",
                         quant_node_name(n), count, MOST_FILLED);
    if (value && value->t && quant_constant_is_infinite(value->t))
        return 0;
    s->left -= count;
    int r = value && value->t ? quant_constant_floats(value->t, &one, s->e) : 0;
    if (r < 0)
        return r;
    float *all = quant_pool_take(&s->m->pool, count, sizeof *all);
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
    bool single = one && one->has_f;
    int64_t dim = list && !single ? (int64_t)list->n_floats : single;
    float *own = dim ? quant_pool_take(&s->m->pool, (size_t)dim, sizeof *own) : NULL;
    if (!dim || !own)
        return dim ? error_no_memory(s->e, "a constant", (size_t)dim * sizeof *own) : 0;
    memcpy(own, single ? &one->f : list->floats, (size_t)dim * sizeof *own);
    return simplify_put(s, out, &dim, !single, own, (size_t)dim);
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

// The same elements under another name and shape. They are shared with nobody, as weights are
// changed in place later (equalization).
static int simplify_alias(struct simplifying *s, const Quant__Tensor *t, struct quant_edge *out,
                          const int64_t *dims, size_t n_dims)
{
    const float *values = NULL;
    size_t n = quant_constant_count(t);
    if (n > s->left || quant_constant_is_infinite(t))
        return 0;
    s->left -= n;
    int r = quant_constant_floats(t, &values, s->e);
    float *own = r == 0 ? quant_pool_take(&s->m->pool, n, sizeof *own) : NULL;
    if (r < 0 || !own)
        return r < 0 ? r : error_no_memory(s->e, "a constant", n * sizeof *own);
    if (n)
        memcpy(own, values, n * sizeof *own);
    return simplify_put(s, out, dims, n_dims, own, n);
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
    const float *values = NULL;
    size_t from[QUANT_MAX_DIMS], steps[QUANT_MAX_DIMS], n = quant_constant_count(t);
    int64_t dims[QUANT_MAX_DIMS], at[QUANT_MAX_DIMS] = {0};
    if (!n || n > s->left || !simplify_order(node, t->n_dims, from) ||
        quant_constant_is_infinite(t))
        return 0;
    s->left -= n;
    int r = quant_constant_floats(t, &values, s->e);
    float *moved = r == 0 ? quant_pool_take(&s->m->pool, n, sizeof *moved) : NULL;
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
    if (quant_is(n, "Transpose"))
        return simplify_transpose(s, n, t, out);
    return quant_simplify_arithmetic(s->m, s->x, n, &s->left, s->e);
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
            r = quant_simplify_gemm(m, &x, m->graph->node[i], e);
        if (r == 0 && !quant_model_append(m, &kept, m->graph->node[i]))
            r = error_no_memory(e, "the model", 0);
    }
    quant_index_done(&x);
    if (r >= 0)
        quant_model_take_nodes(m, &kept);
    return r < 0 ? r : 0;
}
