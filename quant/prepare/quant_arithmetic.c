// Weights that a training framework writes as what they are made of (normalized ones, ones with a
// factor of their own) become constants. What comes out is what the nodes would compute at run
// time.
#include <math.h>

#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"
#include "quant/prepare/quant_simplify.h"

struct arithmetic {
    const char *op;
    size_t n_inputs;
    float (*compute)(float a, float b);
};

static float arithmetic_add(float a, float b)
{
    return a + b;
}

static float arithmetic_sub(float a, float b)
{
    return a - b;
}

static float arithmetic_mul(float a, float b)
{
    return a * b;
}

static float arithmetic_div(float a, float b)
{
    return a / b;
}

static float arithmetic_neg(float a, float b)
{
    (void)b;
    return -a;
}

static float arithmetic_abs(float a, float b)
{
    (void)b;
    return fabsf(a);
}

static float arithmetic_sqrt(float a, float b)
{
    (void)b;
    return sqrtf(a);
}

static float arithmetic_exp(float a, float b)
{
    (void)b;
    return expf(a);
}

static float arithmetic_reciprocal(float a, float b)
{
    (void)b;
    return 1 / a;
}

static const struct arithmetic arithmetics[] = {{"Add", 2, arithmetic_add},
                                                {"Sub", 2, arithmetic_sub},
                                                {"Mul", 2, arithmetic_mul},
                                                {"Div", 2, arithmetic_div},
                                                {"Neg", 1, arithmetic_neg},
                                                {"Abs", 1, arithmetic_abs},
                                                {"Sqrt", 1, arithmetic_sqrt},
                                                {"Exp", 1, arithmetic_exp},
                                                {"Reciprocal", 1, arithmetic_reciprocal}};

static const struct arithmetic *arithmetic_of(const Quant__Node *n)
{
    for (size_t i = 0; i < sizeof arithmetics / sizeof *arithmetics; i++)
        if (quant_is(n, arithmetics[i].op) && n->n_input == arithmetics[i].n_inputs &&
            n->n_output == 1)
            return &arithmetics[i];
    return NULL;
}

// The result's shape, and how far a step in each of its dimensions is in each operand.
struct arithmetic_shape {
    size_t n_dims, count;
    int64_t dims[QUANT_MAX_DIMS];
    size_t steps[2][QUANT_MAX_DIMS];
};

// Of one or two operands (t[1] NULL). False: they do not fit, or are too large.
static bool arithmetic_lay(const Quant__Tensor *const t[2], struct arithmetic_shape *s)
{
    *s = (struct arithmetic_shape){.count = 1};
    for (size_t k = 0; k < 2 && t[k]; k++)
        s->n_dims = t[k]->n_dims > s->n_dims ? t[k]->n_dims : s->n_dims;
    if (s->n_dims > QUANT_MAX_DIMS)
        return false;
    size_t step[2] = {1, 1};
    for (size_t i = s->n_dims; i-- > 0;) {
        s->dims[i] = 1;
        for (size_t k = 0; k < 2 && t[k]; k++) {
            size_t missing = s->n_dims - t[k]->n_dims;
            int64_t dim = i < missing ? 1 : t[k]->dims[i - missing];
            if (dim <= 0 || (dim != 1 && s->dims[i] != 1 && dim != s->dims[i]))
                return false;
            s->dims[i] = dim == 1 ? s->dims[i] : dim;
            s->steps[k][i] = dim == 1 ? 0 : step[k];
            step[k] *= (size_t)dim;
        }
        if (__builtin_mul_overflow(s->count, (size_t)s->dims[i], &s->count))
            return false;
    }
    return true;
}

// False: some result is not finite.
static bool arithmetic_compute(const struct arithmetic *a, const struct arithmetic_shape *s,
                               const float *const *values, float *ret)
{
    int64_t at[QUANT_MAX_DIMS] = {0};
    size_t place[2] = {0, 0};
    bool finite = true;
    for (size_t i = 0; i < s->count; i++) {
        ret[i] = a->compute(values[0][place[0]], values[1] ? values[1][place[1]] : 0);
        finite &= isfinite(ret[i]);
        for (size_t d = s->n_dims; d-- > 0;) {
            place[0] += s->steps[0][d];
            place[1] += s->steps[1][d];
            if (++at[d] < s->dims[d])
                break;
            place[0] -= s->steps[0][d] * (size_t)s->dims[d];
            place[1] -= s->steps[1][d] * (size_t)s->dims[d];
            at[d] = 0;
        }
    }
    return finite;
}

int quant_simplify_arithmetic(struct quant_model *m, const struct quant_index *x,
                              const Quant__Node *n, size_t *left, struct error *e)
{
    const struct arithmetic *a = arithmetic_of(n);
    struct quant_edge *out = quant_index_find(x, quant_output(n, 0));
    const Quant__Tensor *t[2] = {quant_index_weight(x, n, 0), quant_index_weight(x, n, 1)};
    const float *first = NULL, *second = NULL;
    struct arithmetic_shape s;
    if (!a || !out || out->is_output || !t[0] || (a->n_inputs == 2 && !t[1]) ||
        !arithmetic_lay(t, &s) || s.count > *left || quant_constant_is_infinite(t[0]) ||
        (t[1] && quant_constant_is_infinite(t[1])))
        return 0;
    int r = quant_constant_floats(t[0], &first, e);
    if (r == 0 && a->n_inputs == 2)
        r = quant_constant_floats(t[1], &second, e);
    float *made = r == 0 ? quant_pool_take(&m->pool, s.count, sizeof *made) : NULL;
    if (r < 0 || !made)
        return r < 0 ? r : error_no_memory(e, "a constant", s.count * sizeof *made);
    if (!arithmetic_compute(a, &s, (const float *const[]){first, second}, made))
        return 0;
    *left -= s.count;
    out->constant = quant_model_take_constant(m, out->name, QUANT_FLOAT, s.n_dims, s.dims, made,
                                              s.count * sizeof *made);
    return out->constant ? 1 : error_no_memory(e, "a constant", s.count * sizeof *made);
}
