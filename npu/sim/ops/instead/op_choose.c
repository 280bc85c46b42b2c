// Where, comparisons of floats and of 32 and 64-bit integers, and And, Or and Xor of truth values,
// on elements as they are stored; other types are the reference operator's (ref_math.c).
//
//   Where      y = c ? a : b       elements of 1, 2, 4 or 8 bytes, whatever they mean
//   Less …     y = a < b           1 or 0; a > b is b < a
//
// Inputs are broadcast (nd.h). A line's strides are 1, or 0 where an input repeats, nearly always:
// these loops are plain enough for compilers to make vectors of them.
//
// Tests: test_onnx_nodes, test_onnx_moves.
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
#define SELECT(sc, sa, sb)                                                                         \
    for (size_t i = 0; i < n; i++)                                                                 \
        y[i] = c[(int64_t)i * (sc)] != 0 ? a[(int64_t)i * (sa)] : b[(int64_t)i * (sb)];            \
    return

#define SELECT_OF(name, type)                                                                      \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        const int64_t step_c = l->step[1], step_a = l->step[2], step_b = l->step[3];               \
        const size_t n = l->n;                                                                     \
        type *restrict y = (type *)l->y;                                                           \
        const uint8_t *restrict c = l->in[0];                                                      \
        const type *restrict a = (const type *)l->in[1], *restrict b = (const type *)l->in[2];     \
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

#define COMPARE(operation, sa, sb)                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
        y[i] = a[(int64_t)i * (sa)] operation b[(int64_t)i * (sb)];                                \
    return

#define COMPARE_OF(name, type, operation)                                                          \
    KERNEL(void, name, (const struct choose_line *l), (l))                                         \
    {                                                                                              \
        const int64_t step_a = l->step[1], step_b = l->step[2];                                    \
        const size_t n = l->n;                                                                     \
        uint8_t *restrict y = l->y;                                                                \
        const type *restrict a = (const type *)l->in[0], *restrict b = (const type *)l->in[1];     \
        if (step_a == 1 && step_b == 1) {                                                          \
            COMPARE(operation, 1, 1);                                                              \
        }                                                                                          \
        if (step_a == 1 && step_b == 0) {                                                          \
            COMPARE(operation, 1, 0);                                                              \
        }                                                                                          \
        if (step_a == 0 && step_b == 1) {                                                          \
            COMPARE(operation, 0, 1);                                                              \
        }                                                                                          \
        COMPARE(operation, step_a, step_b);                                                        \
    }

COMPARE_OF(equal_f32, unaligned_f32, ==)
COMPARE_OF(less_f32, unaligned_f32, <)
COMPARE_OF(less_equal_f32, unaligned_f32, <=)
COMPARE_OF(equal_i32, unaligned_i32, ==)
COMPARE_OF(less_i32, unaligned_i32, <)
COMPARE_OF(less_equal_i32, unaligned_i32, <=)
COMPARE_OF(equal_i64, unaligned_i64, ==)
COMPARE_OF(less_i64, unaligned_i64, <)
COMPARE_OF(less_equal_i64, unaligned_i64, <=)

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

static bool choose_binary(enum tensor_type type, int64_t kind, struct choose *p)
{
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
    const struct graph_tensor *y = &g->tensors[n->outputs[0]], *b = &g->tensors[n->inputs[1]];
    nd_init(&p->nd, y);
    p->size[0] = tensor_type_size(y->type);
    for (uint32_t i = 0; i < p->n_in; i++) {
        const struct graph_tensor *t = &g->tensors[n->inputs[p->order[i]]];
        if (!is_stored_plainly(t, where && i == 0 ? TENSOR_BOOL : b->type) ||
            !nd_broadcast(&p->nd, t))
            return false;
        p->size[1 + i] = tensor_type_size(t->type);
    }
    nd_simplify(&p->nd);
    return nd_stride(&p->nd, 0) == 1 || nd_inner(&p->nd) == 1;
}

// Describes the step in *p. False: it is none of these.
static bool choose_take(const struct graph *g, const struct graph_node *n, struct choose *p)
{
    const bool where = n->ref.op == REF_OP_WHERE;
    *p = (struct choose){.n_in = where ? 3 : 2};
    if (n->op != GRAPH_REF || !(where || n->ref.op == REF_OP_BINARY) || n->n_inputs != p->n_in ||
        n->n_outputs != 1 || n->outputs[0] < 0)
        return false;
    for (uint32_t i = 0; i < p->n_in; i++)
        if (n->inputs[i] < 0)
            return false;
    const struct graph_tensor *y = &g->tensors[n->outputs[0]], *b = &g->tensors[n->inputs[1]];
    return is_stored_plainly(y, where ? b->type : TENSOR_BOOL) &&
           !(where && y->type == TENSOR_BOOL) && y->n_elems && b->type <= TENSOR_BOOL &&
           (where ? choose_where(b->type, p) : choose_binary(b->type, n->ref.ints[0], p)) &&
           choose_loop(g, n, where, p);
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
