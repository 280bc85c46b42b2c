// Tensors made by a rule. Nothing is rounded but Range's product.
//
//   Range     y[k] = start + k * delta
//   EyeLike   y[i, j] = 1 where j - i is the diagonal that is asked for, else 0
//   OneHot    y[…, d, …] = on where d is the index at …, else off
//
// Tests: test_onnx_nodes (ONNX's own cases).
#include <math.h>

#include "npu/sim/ref/ref.h"

// ---- Range: first number, end, distance ----

static int check_range(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = c->out[0].t != NULL;
    for (uint32_t i = 0; i < 3; i++)
        fits = fits && c->in[i].t && c->in[i].t->n_elems == 1 && c->in[i].real == c->out[0].real;
    return fits ? 0 : ref_refuse(c, e, "its inputs are not single numbers");
}

// y[k] = start + k * delta. Multiplied, not added up, so that floats do not drift.
static int run_range(struct ref_call *c, struct error *e)
{
    (void)e;
    union ref_value start = c->in[0].v[0], delta = c->in[2].v[0];
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++)
        c->out[0].v[k] =
            c->out[0].real
                ? (union ref_value){.r = start.r + (double)k * delta.r}
                : (union ref_value){.i = (int64_t)((uint64_t)start.i + k * (uint64_t)delta.i)};
    return 0;
}

// ---- EyeLike: ints: which diagonal ----

static int check_eye(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = c->out[0].t && c->out[0].t->n_dims == 2;
    return fits ? 0 : ref_refuse(c, e, "its output is no matrix");
}

static int run_eye(struct ref_call *c, struct error *e)
{
    (void)e;
    const struct graph_tensor *y = c->out[0].t;
    for (uint64_t k = 0; k < y->n_elems; k++) {
        bool on = (int64_t)(k % y->dims[1]) - (int64_t)(k / y->dims[1]) == c->node->ref.ints[0];
        c->out[0].v[k] = c->out[0].real ? (union ref_value){.r = on} : (union ref_value){.i = on};
    }
    return 0;
}

// ---- OneHot: ints: axis ----

static int check_one_hot(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t, *values = c->in[2].t;
    int64_t axis = c->node->ref.ints[0];
    bool fits = x && y && values && values->n_elems == 2 && c->in[2].real == c->out[0].real &&
                axis < y->n_dims && y->n_elems == x->n_elems * y->dims[axis];
    return fits ? 0 : ref_refuse(c, e, "its inputs and output do not fit together");
}

// values: {off, on}. Negative indices count from the end; those outside give "off" everywhere.
static int run_one_hot(struct ref_call *c, struct error *e)
{
    (void)e;
    struct nd_axis a = nd_axis(c->out[0].t, (uint32_t)c->node->ref.ints[0]);
    union ref_value *y = c->out[0].v;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++)
        y[k] = c->in[2].v[0];
    for (uint64_t k = 0; k < a.outer * a.inner; k++) {
        union ref_value index = c->in[0].v[k];
        double wanted = c->in[0].real ? trunc(index.r) : (double)index.i;
        wanted += wanted < 0 ? (double)a.size : 0;
        if (wanted >= 0 && wanted < (double)a.size)
            y[(k / a.inner * a.size + (uint64_t)wanted) * a.inner + k % a.inner] = c->in[2].v[1];
    }
    return 0;
}

const struct ref_operator ref_range = {.check = check_range, .run = run_range};
const struct ref_operator ref_eye = {.check = check_eye, .run = run_eye};
const struct ref_operator ref_one_hot = {.check = check_one_hot, .run = run_one_hot};
