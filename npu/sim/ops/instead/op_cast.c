// Cast between floats and integers of 8, 32 and 64 bits, on elements as they are stored; other
// types are the reference operator's (ref_math.c, whose results these are), truth values are made
// by op_choose.c.
//
//   integer to integer   modulo the type's range
//   integer to float     of 64 bits: rounded to a double first, as the reference does
//   float to integer     truncated, saturated at 64 bits, modulo the type's range; NaN becomes 0
//
// A float of less than 2^31 is an int32 first, which vectors can do; a piece of a line that has
// others, or NaN, goes element by element.
//
// Tests: test_onnx_nodes, test_sim_casts.
#include <math.h>

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/ref/ref.h"
#include "npu/sim/simd/kernel.h"

#define PIECE 1024 // floats that are looked at together

typedef int32_t unaligned_i32 __attribute__((aligned(1), may_alias));
typedef uint32_t unaligned_u32 __attribute__((aligned(1), may_alias));
typedef int64_t unaligned_i64 __attribute__((aligned(1), may_alias));
typedef uint64_t unaligned_u64 __attribute__((aligned(1), may_alias));
typedef float unaligned_f32 __attribute__((aligned(1), may_alias));

// `step`: how far elements of x are apart. Those of y are neighbours.
typedef void cast_line(void *y, const void *x, int64_t step, size_t n);

struct cast {
    struct nd nd; // operand 0: output, 1: input
    size_t size[2];
    cast_line *line;
};

// ---- lines ----

#define CAST_EACH(expression)                                                                      \
    for (size_t i = 0; i < n && step == 1; i++) {                                                  \
        const element v = x[i];                                                                    \
        y[i] = (expression);                                                                       \
    }                                                                                              \
    for (size_t i = 0; i < n && step != 1; i++) {                                                  \
        const element v = x[(int64_t)i * step];                                                    \
        y[i] = (expression);                                                                       \
    }

#define CAST_OF(name, from, to, expression)                                                        \
    KERNEL(void, name##_line, (to *restrict y, const from *restrict x, int64_t step, size_t n),    \
           (y, x, step, n))                                                                        \
    {                                                                                              \
        typedef from element;                                                                      \
        CAST_EACH(expression)                                                                      \
    }                                                                                              \
    static void name(void *y, const void *x, int64_t step, size_t n)                               \
    {                                                                                              \
        name##_line(y, x, step, n);                                                                \
    }

#define CASTS_OF(name, from, value, real)                                                          \
    CAST_OF(name##_to_f32, from, unaligned_f32, (float)(real))                                     \
    CAST_OF(name##_to_1, from, uint8_t, (uint8_t)(value))                                          \
    CAST_OF(name##_to_4, from, unaligned_u32, (unaligned_u32)(value))                              \
    CAST_OF(name##_to_8, from, unaligned_u64, (unaligned_u64)(value))

CASTS_OF(bool, uint8_t, v != 0, (int32_t)(v != 0))
CASTS_OF(u8, uint8_t, v, v)
CASTS_OF(i8, int8_t, v, v)
CASTS_OF(i32, unaligned_i32, v, v)
CASTS_OF(i64, unaligned_i64, v, (double)v)

KERNEL(bool, all_are_small, (const unaligned_f32 *x, int64_t step, size_t n), (x, step, n))
{
    int others = 0;
    for (size_t i = 0; i < n && step == 1; i++)
        others |= !(fabsf(x[i]) < 0x1p31f);
    for (size_t i = 0; i < n && step != 1; i++)
        others |= !(fabsf(x[(int64_t)i * step]) < 0x1p31f);
    return !others;
}

#define FLOATS_TO(name, to)                                                                        \
    KERNEL(void, name##_small,                                                                     \
           (to *restrict y, const unaligned_f32 *restrict x, int64_t step, size_t n),              \
           (y, x, step, n))                                                                        \
    {                                                                                              \
        typedef unaligned_f32 element;                                                             \
        CAST_EACH((to)(int64_t)(int32_t)v)                                                         \
    }                                                                                              \
    static void name(void *to_line, const void *from_line, int64_t step, size_t n)                 \
    {                                                                                              \
        to *y = to_line;                                                                           \
        const unaligned_f32 *x = from_line;                                                        \
        for (size_t piece; n; n -= piece, y += piece, x += (int64_t)piece * step) {                \
            piece = n < PIECE ? n : PIECE;                                                         \
            if (all_are_small(x, step, piece)) {                                                   \
                name##_small(y, x, step, piece);                                                   \
                continue;                                                                          \
            }                                                                                      \
            for (size_t i = 0; i < piece; i++)                                                     \
                y[i] = (to)ref_to_integer((double)x[(int64_t)i * step]);                           \
        }                                                                                          \
    }

FLOATS_TO(f32_to_1, uint8_t)
FLOATS_TO(f32_to_4, unaligned_u32)
FLOATS_TO(f32_to_8, unaligned_u64)

// ---- the step ----

static cast_line *cast_line_of(enum tensor_type from, enum tensor_type to)
{
    static cast_line *const lines[][4] = {
        [TENSOR_FLOAT32] = {NULL, f32_to_1, f32_to_4, f32_to_8},
        [TENSOR_BOOL] = {bool_to_f32, bool_to_1, bool_to_4, bool_to_8},
        [TENSOR_UINT8] = {u8_to_f32, u8_to_1, u8_to_4, u8_to_8},
        [TENSOR_INT8] = {i8_to_f32, i8_to_1, i8_to_4, i8_to_8},
        [TENSOR_INT32] = {i32_to_f32, i32_to_1, i32_to_4, i32_to_8},
        [TENSOR_INT64] = {i64_to_f32, i64_to_1, i64_to_4, i64_to_8},
    };
    const int form = to == TENSOR_FLOAT32                      ? 0
                     : to == TENSOR_INT8 || to == TENSOR_UINT8 ? 1
                     : to == TENSOR_INT32                      ? 2
                     : to == TENSOR_INT64                      ? 3
                                                               : -1;
    return form < 0 || (size_t)from >= sizeof lines / sizeof *lines ? NULL : lines[from][form];
}

static bool cast_is_plain(const struct graph_tensor *t)
{
    return !t->quantized && !t->unpack && !t->natural;
}

// Describes the step in *p. False: it is none of these.
static bool cast_take(const struct graph *g, const struct graph_node *n, struct cast *p)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_CAST || n->n_inputs != 1 || n->n_outputs != 1 ||
        n->inputs[0] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    *p = (struct cast){.line = cast_line_of(x->type, y->type),
                       .size = {tensor_type_size(y->type), tensor_type_size(x->type)}};
    if (!p->line || !cast_is_plain(x) || !cast_is_plain(y) || !y->n_elems ||
        x->n_elems != y->n_elems)
        return false;
    nd_init(&p->nd, y);
    if (!nd_broadcast(&p->nd, x))
        return false;
    nd_simplify(&p->nd);
    return nd_stride(&p->nd, 0) == 1 || nd_inner(&p->nd) == 1;
}

bool op_cast_fits(const struct graph *g, const struct graph_node *n)
{
    struct cast p;
    return cast_take(g, n, &p);
}

static int cast_prepare(struct step *s, struct error *e)
{
    struct cast *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    return cast_take(s->plan->graph, s->node, p) ? 0 : step_refuse(s, e, "its output does not fit");
}

static int cast_run(const struct step *s, struct run *r, struct error *e)
{
    const struct cast *p = s->state;
    const uint8_t *x = run_input(s, r, 0);
    uint8_t *y = run_output(s, r, 0);
    struct nd_position at;
    (void)e;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        p->line(y + at.offset[0] * (int64_t)p->size[0], x + at.offset[1] * (int64_t)p->size[1],
                nd_stride(&p->nd, 1), nd_inner(&p->nd));
    return 0;
}

const struct op op_cast = {.prepare = cast_prepare, .run = cast_run, .on_constant = true};
