// Pad: y[i] = x[i - begin] inside, else a constant, or the pixel that the edge or its mirror gives.
//
//   constant   0 0 | a b c d | 0 0
//   edge       a a | a b c d | d d
//   reflect    c b | a b c d | c b
//
// A constant is stored once and doubled until it fills the output, then the input is copied into
// the middle (copy.h). For the other modes a table for each dimension says where its lines come
// from; elements are moved as they are stored where both sides store them alike, as floats
// (plain.h) elsewhere. Tested by test_sim_cases_moves, _float16 and test_onnx_nodes.
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"
#include "npu/sim/ref/ref.h"
#include "npu/sim/ref/ref_bytes.h"

// The output's dimensions in the order of its memory, and where each of their lines begins in the
// input, in elements.
struct pad_tables {
    uint32_t n, dims[GRAPH_MAX_DIMS];
    int64_t *from[GRAPH_MAX_DIMS];
    bool whole; // a line of the last dimension is one of the input
};

// A constant around a copy of the input; or, where padding repeats pixels, tables.
struct pad {
    struct copy copy;
    size_t size;      // bytes of an element
    uint8_t value[8]; // of padding, as it is stored
    bool bytes;       // repeated as they are stored, else as floats
    struct plain in, out;
    struct pad_tables tables;
};

static void prepare_constant(const struct step *s, struct pad *p)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int64_t strides[GRAPH_MAX_DIMS], own[GRAPH_MAX_DIMS];
    struct element_form form = element_form(y);
    p->size = tensor_type_size(y->type);
    elements_store(&form, p->value, 1, &s->node->pad.value);
    copy_init(&p->copy, y, x);
    graph_tensor_strides(y, strides);
    graph_tensor_strides(x, own);
    nd_init(&p->copy.nd, x);
    memcpy(p->copy.nd.strides[0], strides, sizeof strides);
    nd_add(&p->copy.nd, own);
    nd_simplify(&p->copy.nd);
    for (uint32_t i = 0; i < y->n_dims; i++)
        p->copy.to_at += s->node->pad.begin[i] * strides[i];
}

static int prepare_repeat(struct step *s, struct pad *p, struct error *e)
{
    static const uint32_t last[] = {0, 2, 3, 1};
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int64_t strides[GRAPH_MAX_DIMS];
    p->bytes = ref_bytes_same(x, y) && x->channels_last == y->channels_last;
    p->size = p->bytes ? tensor_type_size(y->type) : sizeof(float);
    p->tables.n = y->n_dims;
    if (p->bytes)
        graph_tensor_strides(x, strides);
    else
        ref_strides(x, strides);
    p->tables.whole = true;
    for (uint32_t i = 0; i < y->n_dims; i++) {
        const uint32_t dim = p->bytes && y->channels_last ? last[i] : i, n = y->dims[dim];
        int64_t *from = p->tables.from[i] = step_alloc(s, n, sizeof *from);
        if (!from)
            return error_no_memory(e, "a step", n * sizeof *from);
        p->tables.dims[i] = n;
        p->tables.whole = n == x->dims[dim] && strides[dim] == 1; // of the last one in the end
        for (uint32_t k = 0; k < n; k++)
            from[k] =
                strides[dim] * ref_pad_source(s->node->pad.mode,
                                              (int64_t)k - s->node->pad.begin[dim], x->dims[dim]);
    }
    if (p->bytes)
        return 0;
    int r = plain_input(s, 0, &p->in, e);
    return r < 0 ? r : plain_output(s, 0, &p->out, e);
}

static int pad_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct pad *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "its types are not supported");
    if (x->n_dims != y->n_dims || !x->n_dims || !x->n_elems)
        return step_refuse(s, e, "input and output differ in dimensions");
    for (uint32_t i = 0; i < x->n_dims; i++)
        if ((uint64_t)s->node->pad.begin[i] + x->dims[i] > y->dims[i])
            return step_refuse(s, e, "its output is too small in dimension %u", i);
    if (s->node->pad.mode != PAD_CONSTANT)
        return prepare_repeat(s, p, e);
    prepare_constant(s, p);
    return 0;
}

// Each copy is as long as all that is there already.
static void pad_fill(uint8_t *y, size_t size, const uint8_t *value, size_t element)
{
    memcpy(y, value, element);
    for (size_t done = element, n; done < size; done += n) {
        n = done < size - done ? done : size - done;
        memcpy(y + done, y, n);
    }
}

#define EACH(type)                                                                                 \
    for (uint32_t i = 0; i < n; i++)                                                               \
        memcpy(to + i * sizeof(type), from + table[i] * (int64_t)sizeof(type), sizeof(type));      \
    break

static void pad_line(const struct pad *p, const uint8_t *from, uint8_t *to)
{
    const int64_t *table = p->tables.from[p->tables.n - 1];
    const uint32_t n = p->tables.dims[p->tables.n - 1];
    if (p->tables.whole) {
        memcpy(to, from, n * p->size);
        return;
    }
    switch (p->size) {
    case 1:
        EACH(uint8_t);
    case 2:
        EACH(uint16_t);
    case 4:
        EACH(uint32_t);
    default:
        EACH(uint64_t);
    }
}

static void pad_repeat(const struct pad *p, size_t n_elems, const uint8_t *from, uint8_t *to)
{
    const struct pad_tables *t = &p->tables;
    const uint32_t inner = t->n - 1;
    uint32_t index[GRAPH_MAX_DIMS] = {0};
    for (size_t left = n_elems / t->dims[inner]; left; left--) {
        int64_t at = 0;
        for (uint32_t i = 0; i < inner; i++)
            at += t->from[i][index[i]];
        pad_line(p, from + at * (int64_t)p->size, to);
        to += t->dims[inner] * p->size;
        for (uint32_t i = inner; i-- > 0 && ++index[i] == t->dims[i];)
            index[i] = 0;
    }
}

static int pad_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct pad *p = s->state;
    if (s->node->pad.mode == PAD_CONSTANT) {
        pad_fill(run_output(s, r, 0), step_output(s, 0)->size, p->value, p->size);
        copy_run(&p->copy, run_output(s, r, 0), run_input(s, r, 0));
        return 0;
    }
    const size_t n = step_output(s, 0)->n_elems;
    if (p->bytes) {
        pad_repeat(p, n, run_input(s, r, 0), run_output(s, r, 0));
        return 0;
    }
    const float *from = plain_load(s, r, &p->in);
    pad_repeat(p, n, (const uint8_t *)from, (uint8_t *)plain_values(s, r, &p->out));
    plain_store(s, r, &p->out);
    return 0;
}

const struct op op_pad = {.prepare = pad_prepare, .run = pad_run};
