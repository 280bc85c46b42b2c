// Dynamic shapes: rknn_set_input_shapes. A model is built for up to LIMIT_SHAPE_SETS sets of input
// shapes; a program chooses one of these sets, never an arbitrary shape. In names here a set is a
// "shape set".
#include <string.h>

#include "client/api/context.h"
#include "client/last_error.h"

// Whether an input has this shape in a shape set.
static bool has_shape(const struct context *c, uint32_t shape_set, const rknn_tensor_attr *a)
{
    const struct tensor_attr *t = &context_input_in(c, shape_set, a->index)->logical;
    return a->n_dims == t->n_dims && memcmp(a->dims, t->dims, t->n_dims * sizeof *t->dims) == 0;
}

// Whether all given shapes are those of the set. Inputs that are not given may have any.
static bool shape_fits(const struct context *c, uint32_t shape_set, uint32_t n,
                       const rknn_tensor_attr *attrs)
{
    for (uint32_t i = 0; i < n; i++)
        if (!has_shape(c, shape_set, &attrs[i]))
            return false;
    return true;
}

// A shape names its input by index, and by name if it has one. Shapes are always NHWC (4-D),
// whatever the layout of the data.
static int check_attr(const struct context *c, const rknn_tensor_attr *a, struct error *e)
{
    if (a->index >= c->info.n_inputs)
        return error_set(e, STATUS_PARAM_INVALID, "index %u: the model has %u inputs", a->index,
                         c->info.n_inputs);
    const char *name = context_input(c, a->index)->logical.name;
    rknn_tensor_format wanted = a->n_dims == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED;
    if (a->name[0] && strncmp(a->name, name, sizeof a->name) != 0)
        return error_set(e, STATUS_PARAM_INVALID, "input %u is %s, not %.255s", a->index, name,
                         a->name);
    if (a->n_dims > RKNN_MAX_DIMS || a->fmt != wanted)
        return error_set(e, STATUS_PARAM_INVALID,
                         "input %u (%s): %u dimensions in format %s; a shape is NHWC if it has 4, "
                         "else UNDEFINED",
                         a->index, name, a->n_dims, get_format_string(a->fmt));
    return 0;
}

// Each shape by itself, and no input twice.
static int check_attrs(const struct context *c, uint32_t n, const rknn_tensor_attr *attrs,
                       struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        int r = check_attr(c, &attrs[i], e);
        for (uint32_t k = 0; k < i && r == 0; k++)
            if (attrs[k].index == attrs[i].index)
                r = error_set(e, STATUS_PARAM_INVALID, "input %u is there twice", attrs[i].index);
        if (r < 0)
            return r;
    }
    return 0;
}

// Data that was set for other shapes is dropped: it has another size.
static void change_shape_set(struct context *c, uint32_t shape_set)
{
    if (shape_set == c->shape_set)
        return;
    c->shape_set = shape_set;
    c->input_version++;
    for (uint32_t i = 0; i < c->info.n_inputs; i++)
        c->inputs[i].form.size = 0;
}

// The current set is tried first: the shapes of some inputs alone may fit several sets.
static int set_shapes(struct context *c, uint32_t n, const rknn_tensor_attr *attrs, struct error *e)
{
    int r = check_attrs(c, n, attrs, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < c->info.n_shape_sets; i++) {
        uint32_t shape_set = (c->shape_set + i) % c->info.n_shape_sets;
        if (shape_fits(c, shape_set, n, attrs)) {
            change_shape_set(c, shape_set);
            return 0;
        }
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "these shapes are none of the %u shape sets that the model has "
                     "(RKNN_QUERY_INPUT_DYNAMIC_RANGE)",
                     c->info.n_shape_sets);
}

RKNN_EXPORT int rknn_set_input_shape(rknn_context context, rknn_tensor_attr *attr)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0 && !attr)
        r = error_set(&e, STATUS_PARAM_INVALID, "attr is NULL");
    if (r == 0)
        r = set_shapes(c, 1, attr, &e);
    return last_error_keep("rknn_set_input_shape", r, &e);
}

RKNN_EXPORT int rknn_set_input_shapes(rknn_context context, uint32_t n_inputs,
                                      rknn_tensor_attr attr[])
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0 && (!attr || n_inputs != c->info.n_inputs))
        r = error_set(&e, STATUS_PARAM_INVALID, "%u shapes given%s, the model has %u inputs",
                      n_inputs, attr ? "" : " (and no array)", c->info.n_inputs);
    if (r == 0)
        r = set_shapes(c, n_inputs, attr, &e);
    return last_error_keep("rknn_set_input_shapes", r, &e);
}
