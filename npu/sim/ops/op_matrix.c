// exMatMul (of .rknn files), and custom operators that nobody computes. The first works on floats
// (plain.h), rounded as elements_store() does; tested by test_sim_cases_eltwise, _float16 and
// _index.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"
#include "npu/sim/ref/ref.h"

// ---- exMatMul: y[n, o, 0, w] = sum over k of a[n, k, 0, o] * b[n, k, 0, w] (* or + c) ----

struct ex_mat_mul {
    struct plain a, b, c, y;
    struct ref_walk walk; // over y, with c as its operand
};

// The optional third input, broadcast to the output.
static int prepare_third(struct step *s, struct ex_mat_mul *p, struct error *e)
{
    if (s->node->n_inputs < 3)
        return 0;
    int r = plain_input(s, 2, &p->c, e);
    ref_walk_init(&p->walk, step_output(s, 0));
    if (r == 0 && !ref_walk_broadcast(&p->walk, step_input(s, 2)))
        return step_refuse(s, e, "its third input does not fit its output");
    return r;
}

// What the chip multiplies with in place of b: as an int8, by a factor.
static void round_operand(const struct step *s, float *b)
{
    const struct graph_tensor *t = step_input(s, 1);
    float factor = s->node->ex_product.factor;
    for (size_t i = 0; factor > 0 && i < t->n_elems; i++) {
        float v = rintf(rintf(b[i] / t->scale) * factor);
        b[i] = (v < INT8_MIN ? INT8_MIN : v > INT8_MAX ? INT8_MAX : v) / factor * t->scale;
    }
}

static int prepare_ex_mat_mul(struct step *s, struct error *e)
{
    struct ex_mat_mul *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (plain_input(s, 0, &p->a, e) < 0 || plain_input(s, 1, &p->b, e) < 0 ||
        prepare_third(s, p, e) < 0 || plain_output(s, 0, &p->y, e) < 0)
        return STATUS_MODEL_INVALID;
    if (p->b.constant)
        round_operand(s, p->b.constant);
    const struct graph_tensor *a = step_input(s, 0), *b = step_input(s, 1), *y = step_output(s, 0);
    bool fits = a->n_dims == 4 && b->n_dims == 4 && y->n_dims == 4 && a->dims[2] == 1 &&
                b->dims[2] == 1 && y->dims[2] == 1 && a->dims[0] == b->dims[0] &&
                a->dims[0] == y->dims[0] && a->dims[1] == b->dims[1] && a->dims[3] == y->dims[1] &&
                b->dims[3] == y->dims[3];
    if (!fits)
        return step_refuse(s, e, "its inputs and its output do not fit together");
    return 0;
}

// y += a * b over a row: the loop that vectorizes.
KERNEL(void, add_product, (float *y, const float *b, float a, size_t n), (y, b, a, n))
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * b[i];
}

// y += a * b over a head, where a row is one element: then neighbours are those of a.
KERNEL(void, add_products, (float *y, const float *b, const float *a, size_t n_products, size_t n),
       (y, b, a, n_products, n))
{
    for (size_t j = 0; j < n_products; j++)
        for (size_t l = 0; l < n; l++)
            y[l] += b[j] * a[j * n + l];
}

// Adds or multiplies, as the node says.
static void apply_third(const struct step *s, const struct ex_mat_mul *p, const float *c, float *y)
{
    struct ref_walk w = p->walk;
    for (size_t i = 0; i < step_output(s, 0)->n_elems; i++, ref_walk_next(&w))
        y[i] = s->node->ex_product.multiply ? y[i] * c[w.at[0]] : y[i] + c[w.at[0]];
}

// What registers multiply by has 15 bits, and is not quite what the scales come to.
static void apply_gain(const struct step *s, float *y)
{
    float gain = s->node->ex_product.gain;
    for (size_t i = 0; gain != 0 && i < step_output(s, 0)->n_elems; i++)
        y[i] *= gain;
}

static int run_ex_mat_mul(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct ex_mat_mul *p = s->state;
    const struct graph_tensor *a = step_input(s, 0), *y = step_output(s, 0);
    const float *va = plain_load(s, r, &p->a), *vb = plain_load(s, r, &p->b);
    if (!p->b.constant)
        round_operand(s, (float *)vb); // bytes are floats in the step's own memory
    float *vy = plain_values(s, r, &p->y);
    size_t n = y->dims[0], o = y->dims[1], w = y->dims[3], k = a->dims[1];
    memset(vy, 0, y->n_elems * sizeof *vy);
    for (size_t i = 0; i < n && w == 1; i++)
        add_products(vy + i * o, vb + i * k, va + i * k * o, k, o);
    for (size_t i = 0; i < n && w != 1; i++)
        for (size_t j = 0; j < k; j++)
            for (size_t l = 0; l < o; l++)
                add_product(vy + (i * o + l) * w, vb + (i * k + j) * w, va[(i * k + j) * o + l], w);
    if (s->node->n_inputs > 2)
        apply_third(s, p, plain_load(s, r, &p->c), vy);
    apply_gain(s, vy);
    plain_store(s, r, &p->y);
    return 0;
}

// ---- custom operators ----

// Accepted at loading: a program may register the operator later (sim_custom.c).
static int prepare_custom(struct step *s, struct error *e)
{
    (void)s;
    (void)e;
    return 0;
}

// Reached only if no program or plugin computed the step before.
static int run_custom(const struct step *s, struct run *r, struct error *e)
{
    (void)r;
    return error_set(e, STATUS_FAIL,
                     "node %s: nobody computes operator %s: register it with "
                     "rknn_register_custom_ops(), or install a plugin for it at the server",
                     s->node->name, s->node->type);
}

const struct op op_ex_mat_mul = {.prepare = prepare_ex_mat_mul, .run = run_ex_mat_mul};
const struct op op_custom = {.prepare = prepare_custom, .run = run_custom};
