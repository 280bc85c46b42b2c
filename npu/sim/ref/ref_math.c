// Operators on each element: arithmetic, comparisons, functions, conversions.
//
// Two operands are broadcast (ref_walk). Integers wrap at 64 bits and are divided towards zero;
// floats are computed in doubles, so that storing them is the only rounding.
// Tests: test_onnx_nodes (ONNX's own cases), test_sim_cases_cpu (.rknn).
#include <math.h>

#include "npu/sim/ref/ref.h"
#include "npu/sim/simd/kernel.h"

// An element as double, whichever it is stored as.
static double math_number(const struct ref_tensor *t, uint64_t i)
{
    return t->real ? t->v[i].r : (double)t->v[i].i;
}

// ---- two operands ----

// MOD has the divisor's sign (floor), FMOD the dividend's. MAX and MIN return NaN if either is NaN:
// b is taken when the comparison with it is false.
static double real_binary(int64_t kind, double a, double b)
{
    switch (kind) {
    case REF_ADD:
        return a + b;
    case REF_SUB:
        return a - b;
    case REF_MUL:
        return a * b;
    case REF_DIV:
        return a / b;
    case REF_MOD:
        return a - b * floor(a / b);
    case REF_FMOD:
        return fmod(a, b);
    case REF_POW:
        return pow(a, b);
    case REF_MAX:
        return a > b || isnan(a) ? a : b;
    case REF_MIN:
        return a < b || isnan(a) ? a : b;
    default: // REF_PRELU
        return a < 0 ? a * b : a;
    }
}

// By squaring, modulo 2^64. A negative exponent gives 0, but for bases of 1 and -1.
static int64_t integer_power(int64_t a, int64_t b)
{
    uint64_t product = 1, factor = (uint64_t)a;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, factor *= factor)
        product *= b & 1 ? factor : 1;
    return (int64_t)product;
}

// INT64_MIN / -1 overflows, which traps on x86: it wraps to INT64_MIN here.
static int64_t math_quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

// C's % has the sign of the dividend; ONNX's Mod that of the divisor, unless fmod is set.
static int64_t remainder_of(int64_t a, int64_t b, bool sign_of_divisor)
{
    int64_t r = b == -1 ? 0 : a % b;
    return sign_of_divisor && r && (r < 0) != (b < 0) ? r + b : r;
}

// Wraps modulo 2^64: computed without signs, where overflow is defined.
static int64_t integer_binary(int64_t kind, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case REF_ADD:
        return (int64_t)(x + y);
    case REF_SUB:
        return (int64_t)(x - y);
    case REF_MUL:
        return (int64_t)(x * y);
    case REF_DIV:
        return math_quotient(a, b);
    case REF_MOD:
    case REF_FMOD:
        return remainder_of(a, b, kind == REF_MOD);
    case REF_POW:
        return integer_power(a, b);
    case REF_MAX:
        return a > b ? a : b;
    case REF_MIN:
        return a < b ? a : b;
    case REF_AND:
        return a & b;
    case REF_OR:
        return a | b;
    case REF_XOR:
        return a ^ b;
    case REF_SHIFT_LEFT:
        return y < 64 ? (int64_t)(x << y) : 0;
    case REF_SHIFT_RIGHT:
        return y < 64 ? (int64_t)(x >> y) : 0;
    default: // REF_PRELU
        return a < 0 ? (int64_t)(x * y) : a;
    }
}

#define COMPARE(a, b)                                                                              \
    (kind == REF_EQUAL        ? (a) == (b)                                                         \
     : kind == REF_LESS       ? (a) < (b)                                                          \
     : kind == REF_LESS_EQUAL ? (a) <= (b)                                                         \
     : kind == REF_GREATER    ? (a) > (b)                                                          \
                              : (a) >= (b))

// Their output is bool, whatever the operands are.
static bool is_comparison(int64_t kind)
{
    return kind >= REF_EQUAL && kind <= REF_GREATER_EQUAL;
}

// Both operands broadcast to the output; bit operations need integers.
static int check_binary(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct ref_walk w;
    int64_t kind = c->node->ref.ints[0];
    (void)ret_extra;
    ref_walk_init(&w, c->out[0].t);
    if (!c->in[0].t || !c->in[1].t || !ref_walk_broadcast(&w, c->in[0].t) ||
        !ref_walk_broadcast(&w, c->in[1].t))
        return ref_refuse(c, e, "its inputs do not fit its output");
    bool real = c->in[0].real || c->in[1].real;
    if (real && kind >= REF_AND && kind <= REF_SHIFT_RIGHT)
        return ref_refuse(c, e, "it works on integers");
    if (!is_comparison(kind) && c->out[0].real != c->in[0].real)
        return ref_refuse(c, e, "its output is of another kind than its input");
    return 0;
}

// A count or truth value, for outputs that may be quantized.
static union ref_value math_whole(const struct ref_tensor *y, int64_t v)
{
    return y->real ? (union ref_value){.r = (double)v} : (union ref_value){.i = v};
}

#define EACH_REAL(expression)                                                                      \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        const double u = a[i * a_step].r, v = b[i * b_step].r;                                     \
        y[i].r = (expression);                                                                     \
    }                                                                                              \
    return true

static inline __attribute__((always_inline)) bool
binary_steps(int64_t kind, const union ref_value *restrict a, const uint64_t a_step,
             const union ref_value *restrict b, const uint64_t b_step, uint64_t n,
             union ref_value *restrict y)
{
    switch (kind) {
    case REF_ADD:
        EACH_REAL(u + v);
    case REF_SUB:
        EACH_REAL(u - v);
    case REF_MUL:
        EACH_REAL(u * v);
    case REF_DIV:
        EACH_REAL(u / v);
    default:
        return false;
    }
}

// A row of y; steps of its operands are 1, or 0 where one number is for all. False: not this kind.
KERNEL(bool, binary_row,
       (int64_t kind, const union ref_value *a, uint64_t a_step, const union ref_value *b,
        uint64_t b_step, uint64_t n, union ref_value *y),
       (kind, a, a_step, b, b_step, n, y))
{
    if (!a_step)
        return binary_steps(kind, a, 0, b, b_step, n, y);
    return b_step ? binary_steps(kind, a, 1, b, 1, n, y) : binary_steps(kind, a, 1, b, 0, n, y);
}

// Reals whose last dimension is a row. False: nothing is done yet.
static bool binary_rows(const struct ref_call *c, struct ref_walk w)
{
    int64_t kind = c->node->ref.ints[0];
    const struct ref_tensor *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
    if (!a->real || !b->real || !y->real || !w.n_dims || kind > REF_DIV)
        return false;
    uint64_t row = w.dims[--w.n_dims], a_step = (uint64_t)w.strides[0][w.n_dims],
             b_step = (uint64_t)w.strides[1][w.n_dims];
    for (uint64_t k = 0; k < y->t->n_elems; k += row, ref_walk_next(&w))
        if (!binary_row(kind, a->v + w.at[0], a_step, b->v + w.at[1], b_step, row, y->v + k))
            return false;
    return true;
}

// ints: the kind. Real if either operand is. Dividing integers by zero ends the run; of reals it
// gives infinity or NaN.
static int run_binary(struct ref_call *c, struct error *e)
{
    struct ref_walk w;
    int64_t kind = c->node->ref.ints[0];
    const struct ref_tensor *a = &c->in[0], *b = &c->in[1];
    bool real = a->real || b->real;
    union ref_value *y = c->out[0].v;
    ref_walk_init(&w, c->out[0].t);
    ref_walk_broadcast(&w, a->t);
    ref_walk_broadcast(&w, b->t);
    if (binary_rows(c, w))
        return 0;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++, ref_walk_next(&w)) {
        uint64_t i = (uint64_t)w.at[0], j = (uint64_t)w.at[1];
        if (real) {
            double u = math_number(a, i), v = math_number(b, j);
            if (is_comparison(kind))
                y[k] = math_whole(&c->out[0], COMPARE(u, v));
            else if (c->out[0].real)
                y[k].r = real_binary(kind, u, v);
            else
                y[k].i = ref_to_integer(real_binary(kind, u, v));
            continue;
        }
        int64_t u = a->v[i].i, v = b->v[j].i;
        if (v == 0 && (kind == REF_DIV || kind == REF_MOD || kind == REF_FMOD))
            return ref_fail(c, e, "an integer is divided by zero");
        y[k] = math_whole(&c->out[0],
                          is_comparison(kind) ? COMPARE(u, v) : integer_binary(kind, u, v));
    }
    return 0;
}

// ---- one operand ----

// `a`, `b`: alpha and gamma, lambda and bias, by operator. ROUND is to nearest, ties to even.
static double real_unary(int64_t kind, double x, double a, double b)
{
    switch (kind) {
    case REF_ABS:
        return fabs(x);
    case REF_NEG:
        return -x;
    case REF_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case REF_CEIL:
        return ceil(x);
    case REF_FLOOR:
        return floor(x);
    case REF_ROUND:
        return rint(x);
    case REF_SIN:
        return sin(x);
    case REF_COS:
        return cos(x);
    case REF_TAN:
        return tan(x);
    case REF_ASIN:
        return asin(x);
    case REF_ACOS:
        return acos(x);
    case REF_ATAN:
        return atan(x);
    case REF_SINH:
        return sinh(x);
    case REF_COSH:
        return cosh(x);
    case REF_ASINH:
        return asinh(x);
    case REF_ACOSH:
        return acosh(x);
    case REF_ATANH:
        return atanh(x);
    case REF_SELU:
        return b * (x > 0 ? x : a * expm1(x));
    case REF_CELU:
        return (x > 0 ? x : 0) + fmin(0, a * expm1(x / a));
    case REF_THRESHOLDED_RELU:
        return x > a ? x : 0;
    case REF_SOFTSIGN:
        return x / (1 + fabs(x));
    case REF_SHRINK:
        return x < -a ? x + b : x > a ? x - b : 0;
    case REF_RELU:
        return x < 0 ? 0 : x;
    default: // REF_IDENTITY
        return x;
    }
}

static int64_t integer_unary(int64_t kind, int64_t x)
{
    switch (kind) {
    case REF_ABS:
        return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case REF_NEG:
        return (int64_t)(0 - (uint64_t)x);
    case REF_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : 0;
    case REF_NOT:
        return !x;
    case REF_RELU:
        return x < 0 ? 0 : x;
    default: // REF_IDENTITY
        return x;
    }
}

// IsNaN and IsInf: reals in, truth values out.
static bool is_question(int64_t kind)
{
    return kind == REF_IS_NAN || kind == REF_IS_INF;
}

// Most functions are of reals only; integers have ABS to NOT, RELU and IDENTITY.
static int check_unary(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    int64_t kind = c->node->ref.ints[0];
    bool integers = kind <= REF_NOT || kind == REF_RELU || kind == REF_IDENTITY;
    (void)ret_extra;
    if (!c->in[0].t || c->in[0].t->n_elems != c->out[0].t->n_elems ||
        (!c->in[0].real && !integers) || (c->in[0].real && kind == REF_NOT) ||
        (!is_question(kind) && c->in[0].real != c->out[0].real))
        return ref_refuse(c, e, "its types or shapes are not supported");
    return 0;
}

// IS_INF: a and b say whether negative and positive infinity count.
static int run_unary(struct ref_call *c, struct error *e)
{
    (void)e;
    int64_t kind = c->node->ref.ints[0];
    double a = (double)c->node->ref.reals[0], b = (double)c->node->ref.reals[1];
    const union ref_value *x = c->in[0].v;
    union ref_value *y = c->out[0].v;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++)
        if (kind == REF_IS_NAN)
            y[k] = math_whole(&c->out[0], isnan(x[k].r));
        else if (kind == REF_IS_INF)
            y[k] = math_whole(&c->out[0], isinf(x[k].r) && (x[k].r < 0 ? a != 0 : b != 0));
        else if (c->in[0].real)
            y[k].r = real_unary(kind, x[k].r, a, b);
        else
            y[k].i = integer_unary(kind, x[k].i);
    return 0;
}

// ---- Where, Clip, Cast ----

// Condition, then the two values, which have the type of the output.
static int check_where(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct ref_walk w;
    (void)ret_extra;
    ref_walk_init(&w, c->out[0].t);
    for (int i = 0; i < 3; i++)
        if (!c->in[i].t || !ref_walk_broadcast(&w, c->in[i].t))
            return ref_refuse(c, e, "its inputs do not fit its output");
    if (c->in[0].real || c->in[1].real != c->in[2].real || c->in[1].real != c->out[0].real ||
        (!c->in[1].real &&
         (c->in[1].t->type != c->in[2].t->type || c->in[1].t->type != c->out[0].t->type)))
        return ref_refuse(c, e, "its types do not fit together");
    return 0;
}

// y = condition ? a : b, all three broadcast.
static int run_where(struct ref_call *c, struct error *e)
{
    (void)e;
    struct ref_walk w;
    ref_walk_init(&w, c->out[0].t);
    for (int i = 0; i < 3; i++)
        ref_walk_broadcast(&w, c->in[i].t);
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++, ref_walk_next(&w))
        c->out[0].v[k] = c->in[0].v[w.at[0]].i ? c->in[1].v[w.at[1]] : c->in[2].v[w.at[2]];
    return 0;
}

// min and max are optional, of one element each.
static int check_clip(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = c->in[0].t && c->in[0].t->n_elems == c->out[0].t->n_elems;
    for (int i = 1; i < 3; i++)
        fits = fits &&
               (!c->in[i].t || (c->in[i].t->n_elems == 1 && c->in[i].t->type == c->in[0].t->type));
    return fits ? 0 : ref_refuse(c, e, "its inputs do not fit together");
}

// min, then max, as ONNX has it: with min > max the result is max. NaN stays NaN.
static int run_clip(struct ref_call *c, struct error *e)
{
    (void)e;
    bool real = c->in[0].real, low = c->in[1].t, high = c->in[2].t;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++) {
        union ref_value v = c->in[0].v[k];
        if (low && (real ? v.r < c->in[1].v->r : v.i < c->in[1].v->i))
            v = *c->in[1].v;
        if (high && (real ? v.r > c->in[2].v->r : v.i > c->in[2].v->i))
            v = *c->in[2].v;
        c->out[0].v[k] = v;
    }
    return 0;
}

static int check_cast(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    bool fits = c->in[0].t && c->in[0].t->n_elems == c->out[0].t->n_elems;
    return fits ? 0 : ref_refuse(c, e, "input and output differ in size");
}

// Reals are truncated to integers and saturated to 64 bits, NaN becomes 0; to bool, NaN is true.
static int run_cast(struct ref_call *c, struct error *e)
{
    (void)e;
    const struct ref_tensor *x = &c->in[0];
    bool truth = c->out[0].t->type == TENSOR_BOOL;
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++)
        if (c->out[0].real)
            c->out[0].v[k].r = math_number(x, k);
        else if (truth)
            c->out[0].v[k].i = x->real ? x->v[k].r != 0 : x->v[k].i != 0;
        else
            c->out[0].v[k].i = x->real ? ref_to_integer(x->v[k].r) : x->v[k].i;
    return 0;
}

const struct ref_operator ref_binary = {.check = check_binary, .run = run_binary};
const struct ref_operator ref_unary = {.check = check_unary, .run = run_unary};
const struct ref_operator ref_where = {.check = check_where, .run = run_where};
const struct ref_operator ref_clip = {.check = check_clip, .run = run_clip};
const struct ref_operator ref_cast = {.check = check_cast, .run = run_cast};
