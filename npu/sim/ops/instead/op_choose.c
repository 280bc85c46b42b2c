// Where, comparisons of floats and of 32 and 64-bit integers, sums, products and bits of these
// integers, and what makes truth values of one operand, on elements as they are stored; other types
// are the reference operator's (ref_math.c).
//
//   Where      y = c ? a : b       elements of 1, 2, 4 or 8 bytes, whatever they mean
//   Less …     y = a < b           1 or 0; a > b is b < a
//   Add …      y = a + b           of integers, which wrap
//   Not …      y = a == 0          1 or 0; Cast to truth values, IsNaN and IsInf, too
//
// Inputs are broadcast (nd.h). A line's strides are 1, or 0 where an input repeats, nearly always:
// these loops are plain enough for compilers to make vectors of them.
//
// Tests: test_onnx_nodes, test_onnx_moves.
#include <float.h>

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/kernel.h"

#define MAX_OPERANDS 4 // the output first

typedef uint16_t unaligned_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t unaligned_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t unaligned_u64 __attribute__((aligned(1), may_alias));
typedef int32_t unaligned_i32 __attribute__((aligned(1), may_alias));
typedef int64_t unaligned_i64 __attribute__((aligned(1), may_alias));
typedef float unaligned_f32 __attribute__((aligned(1), may_alias));

// Of one line: where operands begin, and how far their elements are apart.
struct choose_line {
    uint8_t *y;
    const uint8_t *in[MAX_OPERANDS - 1];
    int64_t step[MAX_OPERANDS];
    size_t n;
};

struct choose {
    struct nd nd;
    uint32_t n_in;
    uint32_t order[MAX_OPERANDS - 1]; // which input of the node is which operand
    size_t size[MAX_OPERANDS];        // bytes of an element
    void (*line)(const struct choose_line *l);
};

// ---- lines ----

// What a line says is in variables of their own: stores could change it, for all a compiler knows.
// Both operands are read whatever is chosen: compilers make no vectors of a read that may not be.
#define SELECT(sc, sa, sb)                                                                         \
    for (size_t i = 0; i < n; i++) {                                                               \
        const element u = a[(int64_t)i * (sa)], v = b[(int64_t)i * (sb)];                          \
        y[i] = c[(int64_t)i * (sc)] != 0 ? u : v;                                                  \
    }                                                                                              \
    return

#define SELECT_OF(name, type)                                                                      \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        typedef type element;                                                                      \
        const int64_t step_c = l->step[1], step_a = l->step[2], step_b = l->step[3];               \
        const size_t n = l->n;                                                                     \
        type *restrict y = (type *)l->y;                                                           \
        const uint8_t *restrict c = l->in[0];                                                      \
        const type *restrict a = (const type *)l->in[1], *restrict b = (const type *)l->in[2];     \
        if (step_c == 0) {                                                                         \
            const int64_t step = c[0] ? step_a : step_b;                                           \
            const type *restrict from = c[0] ? a : b;                                              \
            for (size_t i = 0; i < n && step == 1; i++)                                            \
                y[i] = from[i];                                                                    \
            for (size_t i = 0; i < n && step != 1; i++)                                            \
                y[i] = from[(int64_t)i * step];                                                    \
            return;                                                                                \
        }                                                                                          \
        if (step_c == 1 && step_a == 1 && step_b == 1) {                                           \
            SELECT(1, 1, 1);                                                                       \
        }                                                                                          \
        if (step_c == 1 && step_a == 0 && step_b == 1) {                                           \
            SELECT(1, 0, 1);                                                                       \
        }                                                                                          \
        if (step_c == 1 && step_a == 1 && step_b == 0) {                                           \
            SELECT(1, 1, 0);                                                                       \
        }                                                                                          \
        SELECT(step_c, step_a, step_b);                                                            \
    }

SELECT_OF(select_1, uint8_t)
SELECT_OF(select_2, unaligned_u16)
SELECT_OF(select_4, unaligned_u32)
SELECT_OF(select_8, unaligned_u64)

// u and v are elements of both operands.
#define COMBINE(expression, sa, sb)                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
        const element u = a[(int64_t)i * (sa)], v = b[(int64_t)i * (sb)];                          \
        y[i] = (expression);                                                                       \
    }                                                                                              \
    return

#define COMBINE_OF(name, type, made, expression)                                                   \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        typedef type element;                                                                      \
        const int64_t step_a = l->step[1], step_b = l->step[2];                                    \
        const size_t n = l->n;                                                                     \
        made *restrict y = (made *)l->y;                                                           \
        const type *restrict a = (const type *)l->in[0], *restrict b = (const type *)l->in[1];     \
        if (step_a == 1 && step_b == 1) {                                                          \
            COMBINE(expression, 1, 1);                                                             \
        }                                                                                          \
        if (step_a == 1 && step_b == 0) {                                                          \
            COMBINE(expression, 1, 0);                                                             \
        }                                                                                          \
        if (step_a == 0 && step_b == 1) {                                                          \
            COMBINE(expression, 0, 1);                                                             \
        }                                                                                          \
        COMBINE(expression, step_a, step_b);                                                       \
    }

#define COMPARE_OF(name, type, operation)     COMBINE_OF(name, type, uint8_t, u operation v)
#define ARITHMETIC_OF(name, type, expression) COMBINE_OF(name, type, type, expression)

COMPARE_OF(equal_f32, unaligned_f32, ==)
COMPARE_OF(less_f32, unaligned_f32, <)
COMPARE_OF(less_equal_f32, unaligned_f32, <=)
COMPARE_OF(equal_i32, unaligned_i32, ==)
COMPARE_OF(less_i32, unaligned_i32, <)
COMPARE_OF(less_equal_i32, unaligned_i32, <=)
COMPARE_OF(equal_i64, unaligned_i64, ==)
COMPARE_OF(less_i64, unaligned_i64, <)
COMPARE_OF(less_equal_i64, unaligned_i64, <=)

ARITHMETIC_OF(add_4, unaligned_u32, u + v)
ARITHMETIC_OF(sub_4, unaligned_u32, u - v)
ARITHMETIC_OF(mul_4, unaligned_u32, u *v)
ARITHMETIC_OF(max_4, unaligned_i32, u > v ? u : v)
ARITHMETIC_OF(min_4, unaligned_i32, u < v ? u : v)
ARITHMETIC_OF(and_4, unaligned_u32, u &v)
ARITHMETIC_OF(or_4, unaligned_u32, u | v)
ARITHMETIC_OF(xor_4, unaligned_u32, u ^ v)
ARITHMETIC_OF(add_8, unaligned_u64, u + v)
ARITHMETIC_OF(sub_8, unaligned_u64, u - v)
ARITHMETIC_OF(mul_8, unaligned_u64, u *v)
ARITHMETIC_OF(max_8, unaligned_i64, u > v ? u : v)
ARITHMETIC_OF(min_8, unaligned_i64, u < v ? u : v)
ARITHMETIC_OF(and_8, unaligned_u64, u &v)
ARITHMETIC_OF(or_8, unaligned_u64, u | v)
ARITHMETIC_OF(xor_8, unaligned_u64, u ^ v)

#define TRUTH_OF(name, type, expression)                                                           \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        const int64_t step_a = l->step[1];                                                         \
        const size_t n = l->n;                                                                     \
        uint8_t *restrict y = l->y;                                                                \
        const type *restrict a = (const type *)l->in[0];                                           \
        for (size_t i = 0; i < n && step_a == 1; i++) {                                            \
            const type v = a[i];                                                                   \
            y[i] = (expression);                                                                   \
        }                                                                                          \
        for (size_t i = 0; i < n && step_a != 1; i++) {                                            \
            const type v = a[(int64_t)i * step_a];                                                 \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    }

TRUTH_OF(none_1, uint8_t, v == 0)
TRUTH_OF(some_1, uint8_t, v != 0)
TRUTH_OF(some_4, unaligned_u32, v != 0)
TRUTH_OF(some_8, unaligned_u64, v != 0)
TRUTH_OF(some_f32, unaligned_f32, v != 0)
TRUTH_OF(is_nan, unaligned_f32, v != v)
TRUTH_OF(is_inf, unaligned_f32, (v > FLT_MAX) | (v < -FLT_MAX))

// A truth value may be stored as any byte but 0.
#define TRUTHS_OF(name, operation)                                                                 \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        const int64_t step_a = l->step[1], step_b = l->step[2];                                    \
        const size_t n = l->n;                                                                     \
        uint8_t *restrict y = l->y;                                                                \
        const uint8_t *restrict a = l->in[0], *restrict b = l->in[1];                              \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (a[(int64_t)i * step_a] != 0) operation(b[(int64_t)i * step_b] != 0);           \
    }

TRUTHS_OF(and_truths, &)
TRUTHS_OF(or_truths, |)
TRUTHS_OF(xor_truths, ^)

// ---- which of them ----

#define CALLED(name)                                                                               \
    static void call_##name(const struct choose_line *l)                                           \
    {                                                                                              \
        name(l);                                                                                   \
    }
// clang-format off
CALLED(select_1) CALLED(select_2) CALLED(select_4) CALLED(select_8)
CALLED(equal_f32) CALLED(less_f32) CALLED(less_equal_f32)
CALLED(equal_i32) CALLED(less_i32) CALLED(less_equal_i32)
CALLED(equal_i64) CALLED(less_i64) CALLED(less_equal_i64)
CALLED(and_truths) CALLED(or_truths) CALLED(xor_truths)
CALLED(add_4) CALLED(sub_4) CALLED(mul_4) CALLED(max_4) CALLED(min_4)
CALLED(add_8) CALLED(sub_8) CALLED(mul_8) CALLED(max_8) CALLED(min_8)
CALLED(and_4) CALLED(or_4) CALLED(xor_4) CALLED(and_8) CALLED(or_8) CALLED(xor_8)
CALLED(none_1) CALLED(some_1) CALLED(some_4) CALLED(some_8) CALLED(some_f32)
CALLED(is_nan) CALLED(is_inf)
    // clang-format on

    static bool choose_comparison(enum tensor_type type, int64_t kind, struct choose *p)
{
    static void (*const lines[][3])(const struct choose_line *) = {
        {call_equal_f32, call_less_f32, call_less_equal_f32},
        {call_equal_i32, call_less_i32, call_less_equal_i32},
        {call_equal_i64, call_less_i64, call_less_equal_i64},
    };
    const int of = type == TENSOR_FLOAT32 ? 0
                   : type == TENSOR_INT32 ? 1
                   : type == TENSOR_INT64 ? 2
                                          : -1;
    const bool turned = kind == REF_GREATER || kind == REF_GREATER_EQUAL;
    if (of < 0)
        return false;
    p->line = lines[of][kind == REF_EQUAL ? 0 : kind == REF_LESS || kind == REF_GREATER ? 1 : 2];
    p->order[0] = turned;
    p->order[1] = !turned;
    return true;
}

static bool choose_arithmetic(enum tensor_type type, int64_t kind, struct choose *p)
{
    static void (*const lines[][2])(const struct choose_line *) = {
        [REF_ADD] = {call_add_4, call_add_8}, [REF_SUB] = {call_sub_4, call_sub_8},
        [REF_MUL] = {call_mul_4, call_mul_8}, [REF_MAX] = {call_max_4, call_max_8},
        [REF_MIN] = {call_min_4, call_min_8}, [REF_AND] = {call_and_4, call_and_8},
        [REF_OR] = {call_or_4, call_or_8},    [REF_XOR] = {call_xor_4, call_xor_8},
    };
    p->line = kind >= 0 && kind <= REF_XOR ? lines[kind][type == TENSOR_INT64] : NULL;
    p->order[1] = 1;
    return p->line;
}

static bool choose_truth(const struct graph_node *n, enum tensor_type type, struct choose *p)
{
    const bool real = type == TENSOR_FLOAT32, unary = n->ref.op == REF_OP_UNARY;
    const int64_t kind = unary ? n->ref.ints[0] : -1;
    const float *infinite = n->ref.reals;
    if (unary && kind == REF_NOT)
        p->line = type == TENSOR_BOOL ? call_none_1 : NULL;
    else if (unary && kind == REF_IS_NAN)
        p->line = real ? call_is_nan : NULL;
    else if (unary && kind == REF_IS_INF)
        p->line = real && infinite[0] > 0 && infinite[1] > 0 ? call_is_inf : NULL;
    else if (!unary)
        p->line = real                                          ? call_some_f32
                  : type == TENSOR_INT32                        ? call_some_4
                  : type == TENSOR_INT64                        ? call_some_8
                  : type == TENSOR_INT8 || type == TENSOR_UINT8 ? call_some_1
                                                                : NULL;
    return p->line;
}

static bool choose_binary(enum tensor_type type, int64_t kind, struct choose *p)
{
    if ((type == TENSOR_INT32 || type == TENSOR_INT64) && kind < REF_EQUAL)
        return choose_arithmetic(type, kind, p);
    if (kind >= REF_EQUAL && kind <= REF_GREATER_EQUAL)
        return choose_comparison(type, kind, p);
    p->line = kind == REF_AND   ? call_and_truths
              : kind == REF_OR  ? call_or_truths
              : kind == REF_XOR ? call_xor_truths
                                : NULL;
    p->order[1] = 1;
    return p->line && type == TENSOR_BOOL;
}

static bool choose_where(enum tensor_type type, struct choose *p)
{
    static void (*const lines[])(const struct choose_line *) = {
        [1] = call_select_1, [2] = call_select_2, [4] = call_select_4, [8] = call_select_8};
    p->line = lines[tensor_type_size(type)];
    for (uint32_t i = 0; i < 3; i++)
        p->order[i] = i;
    return true;
}

static bool is_stored_plainly(const struct graph_tensor *t, enum tensor_type type)
{
    return t->type == type && t->type <= TENSOR_BOOL && !t->quantized && !t->unpack && !t->natural;
}

// The operands' strides in the output's loop. False: inputs are of other types, or do not
// broadcast.
static bool choose_loop(const struct graph *g, const struct graph_node *n, bool where,
                        struct choose *p)
{
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    const enum tensor_type type = g->tensors[n->inputs[p->n_in > 1]].type;
    nd_init(&p->nd, y);
    p->size[0] = tensor_type_size(y->type);
    for (uint32_t i = 0; i < p->n_in; i++) {
        const struct graph_tensor *t = &g->tensors[n->inputs[p->order[i]]];
        if (!is_stored_plainly(t, where && i == 0 ? TENSOR_BOOL : type) || !nd_broadcast(&p->nd, t))
            return false;
        p->size[1 + i] = tensor_type_size(t->type);
    }
    nd_simplify(&p->nd);
    return nd_stride(&p->nd, 0) == 1 || nd_inner(&p->nd) == 1;
}

// What makes the output's elements, and of which type they are. False: it is none of these.
static bool choose_line_of(const struct graph_node *n, enum tensor_type type, struct choose *p,
                           enum tensor_type *ret_type)
{
    *ret_type = TENSOR_BOOL;
    if (n->ref.op == REF_OP_WHERE) {
        *ret_type = type;
        return type != TENSOR_BOOL && choose_where(type, p);
    }
    if (n->ref.op != REF_OP_BINARY)
        return choose_truth(n, type, p);
    if (n->ref.ints[0] < REF_EQUAL)
        *ret_type = type;
    return choose_binary(type, n->ref.ints[0], p);
}

// Describes the step in *p. False: it is none of these.
static bool choose_take(const struct graph *g, const struct graph_node *n, struct choose *p)
{
    const uint32_t op = n->op == GRAPH_REF ? n->ref.op : REF_OP_NONE;
    const bool where = op == REF_OP_WHERE, one = op == REF_OP_UNARY || op == REF_OP_CAST;
    *p = (struct choose){.n_in = where ? 3 : one ? 1 : 2};
    if (!(where || one || op == REF_OP_BINARY) || n->n_inputs != p->n_in || n->n_outputs != 1 ||
        n->outputs[0] < 0)
        return false;
    for (uint32_t i = 0; i < p->n_in; i++)
        if (n->inputs[i] < 0)
            return false;
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    const enum tensor_type type = g->tensors[n->inputs[!one]].type;
    enum tensor_type made;
    return type <= TENSOR_BOOL && y->n_elems && choose_line_of(n, type, p, &made) &&
           is_stored_plainly(y, made) && choose_loop(g, n, where, p);
}

bool op_choose_fits(const struct graph *g, const struct graph_node *n)
{
    struct choose p;
    return choose_take(g, n, &p);
}

static int choose_prepare(struct step *s, struct error *e)
{
    struct choose *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    return choose_take(s->plan->graph, s->node, p) ? 0 : step_refuse(s, e, "its inputs do not fit");
}

static int choose_run(const struct step *s, struct run *r, struct error *e)
{
    const struct choose *p = s->state;
    const uint8_t *in[MAX_OPERANDS - 1];
    uint8_t *y = run_output(s, r, 0);
    struct choose_line l = {.n = nd_inner(&p->nd)};
    struct nd_position at;
    (void)e;
    for (uint32_t i = 0; i < p->n_in; i++)
        in[i] = run_input(s, r, p->order[i]);
    for (uint32_t i = 0; i <= p->n_in; i++)
        l.step[i] = nd_stride(&p->nd, i);
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at)) {
        l.y = y + at.offset[0] * (int64_t)p->size[0];
        for (uint32_t i = 0; i < p->n_in; i++)
            l.in[i] = in[i] + at.offset[1 + i] * (int64_t)p->size[1 + i];
        p->line(&l);
    }
    return 0;
}

const struct op op_choose = {.prepare = choose_prepare, .run = choose_run, .on_constant = true};
