// Operators on each element: arithmetic with broadcasting, activations, BatchNormalization.
#include <math.h>

#include "npu/sim/bytes.h"
#include "npu/sim/nd.h"
#include "npu/sim/ops.h"
#include "npu/sim/rows.h"

// An operand: a tensor of the run, or a constant that was turned into floats.
struct operand {
    struct row_form form;
    size_t size; // bytes of an element
    float *constant;
    uint32_t input; // of the step
};

struct rows {
    struct nd nd; // operand 0: the output, then the operands
    struct row_form to;
    size_t to_size;
    struct operand operands[2];
    bool mapped; // of 8-bit numbers beside each other
    int8_t table[256];
    // BatchNormalization: x * operand 0 + operand 1 of these, along dimension 1.
};

static int take_operand(struct step *s, struct rows *p, uint32_t k, struct error *e)
{
    const struct graph_tensor *t = step_input(s, k);
    struct operand *o = &p->operands[k];
    if (!t || !row_type_known(t->type))
        return step_refuse(s, e, "its input %u has a type that is not supported", k);
    if (!nd_broadcast(&p->nd, t))
        return step_refuse(s, e, "its input %s does not fit its output", t->name);
    *o = (struct operand){row_form(t), tensor_type_size(t->type), NULL, k};
    if (!t->constant)
        return 0;
    o->form = (struct row_form){.type = TENSOR_FLOAT32};
    o->size = sizeof(float);
    return step_floats(s, t, &o->constant, e);
}

static int prepare(struct step *s, uint32_t n_operands, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct rows *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!row_type_known(y->type))
        return step_refuse(s, e, "output type %s is not supported", tensor_type_name(y->type));
    p->to = row_form(y);
    p->to_size = tensor_type_size(y->type);
    nd_init(&p->nd, y);
    for (uint32_t k = 0; k < n_operands; k++) {
        int r = take_operand(s, p, k, e);
        if (r < 0)
            return r;
    }
    nd_simplify(&p->nd);
    return 0;
}

static const uint8_t *base(const struct step *s, const struct run *r, const struct operand *o)
{
    return o->constant ? (const uint8_t *)o->constant : run_input(s, r, o->input);
}

// `n` values of an operand from element `at` on; a step of 0 repeats one.
static void load(const struct operand *o, const uint8_t *from, int64_t at, int64_t step, size_t n,
                 float *dst)
{
    const uint8_t *p = from + at * (int64_t)o->size;
    if (step) {
        row_load_strided(&o->form, p, step, n, dst);
        return;
    }
    float one;
    row_load(&o->form, p, 1, &one);
    for (size_t i = 0; i < n; i++)
        dst[i] = one;
}

KERNEL static void combine(enum graph_op op, float *a, const float *b, size_t n)
{
#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++)                                                                 \
        a[i] = (expression);                                                                       \
    break
    switch (op) {
    case GRAPH_ADD:
        EACH(a[i] + b[i]);
    case GRAPH_SUB:
        EACH(a[i] - b[i]);
    case GRAPH_MUL:
        EACH(a[i] * b[i]);
    case GRAPH_DIV:
        EACH(a[i] / b[i]);
    case GRAPH_MAX:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case GRAPH_MIN:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    default: // GRAPH_PRELU
        EACH(a[i] < 0 ? a[i] * b[i] : a[i]);
    }
}

KERNEL static bool all_are(const float *v, float wanted, size_t n)
{
    int other = 0;
    for (size_t i = 0; i < n; i++)
        other |= v[i] != wanted;
    return !other;
}

static void combine_slowly(enum graph_op op, float *a, const float *b, size_t n)
{
    if (op == GRAPH_POW && all_are(b, 2, n)) {
        combine(GRAPH_MUL, a, a, n);
    } else if (op == GRAPH_POW) {
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] == 2 ? a[i] * a[i] : powf(a[i], b[i]);
    } else if (op == GRAPH_MOD) {
        for (size_t i = 0; i < n; i++) // the sign of the divisor, as ONNX has it for integers
            a[i] -= b[i] * floorf(a[i] / b[i]);
    } else {
        combine(op, a, b, n);
    }
}

static void post_and_store(const struct step *s, const struct rows *p, float *x, size_t n,
                           uint8_t *to)
{
    for (uint32_t i = 0; i < s->node->n_post; i++)
        row_post(&s->node->post[i], x, n);
    row_store_strided(&p->to, to, nd_step(&p->nd, 0), n, x);
}

static int prepare_binary(struct step *s, struct error *e)
{
    return prepare(s, 2, e);
}

static int run_binary(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct rows *p = s->state;
    const uint8_t *from[2] = {base(s, r, &p->operands[0]), base(s, r, &p->operands[1])};
    uint8_t *to = run_output(s, r, 0);
    size_t row = nd_row(&p->nd);
    int64_t step[3] = {nd_step(&p->nd, 0), nd_step(&p->nd, 1), nd_step(&p->nd, 2)};
    struct nd_position at;
    float a[ROW_CHUNK], b[ROW_CHUNK];
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        for (size_t done = 0; done < row; done += ROW_CHUNK) {
            size_t n = row - done < ROW_CHUNK ? row - done : ROW_CHUNK;
            int64_t i = (int64_t)done;
            load(&p->operands[0], from[0], at.offset[1] + i * step[1], step[1], n, a);
            load(&p->operands[1], from[1], at.offset[2] + i * step[2], step[2], n, b);
            combine_slowly(s->node->op, a, b, n);
            post_and_store(s, p, a, n, to + (at.offset[0] + i * step[0]) * (int64_t)p->to_size);
        }
    return 0;
}

static int prepare_unary(struct step *s, struct error *e)
{
    int r = prepare(s, 1, e);
    struct rows *p = s->state;
    if (r < 0)
        return r;
    p->mapped = p->to.type == TENSOR_INT8 && p->operands[0].form.type == TENSOR_INT8 &&
                nd_step(&p->nd, 0) == 1 && nd_step(&p->nd, 1) == 1;
    if (p->mapped)
        row_table(&p->operands[0].form, s->node->post, s->node->n_post, &p->to, p->table);
    return 0;
}

static void map_rows(const struct rows *p, const uint8_t *from, uint8_t *to)
{
    struct nd_position at;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        bytes_map(p->table, (const int8_t *)from + at.offset[1], nd_row(&p->nd),
                  (int8_t *)to + at.offset[0]);
}

static int run_unary(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct rows *p = s->state;
    const uint8_t *from = base(s, r, &p->operands[0]);
    uint8_t *to = run_output(s, r, 0);
    size_t row = nd_row(&p->nd);
    int64_t step[2] = {nd_step(&p->nd, 0), nd_step(&p->nd, 1)};
    struct nd_position at;
    float a[ROW_CHUNK];
    if (p->mapped) {
        map_rows(p, from, to);
        return 0;
    }
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        for (size_t done = 0; done < row; done += ROW_CHUNK) {
            size_t n = row - done < ROW_CHUNK ? row - done : ROW_CHUNK;
            int64_t i = (int64_t)done;
            load(&p->operands[0], from, at.offset[1] + i * step[1], step[1], n, a);
            post_and_store(s, p, a, n, to + (at.offset[0] + i * step[0]) * (int64_t)p->to_size);
        }
    return 0;
}

const struct op op_binary = {.prepare = prepare_binary, .run = run_binary, .in_place = true};
const struct op op_unary = {.prepare = prepare_unary, .run = run_unary, .in_place = true};
