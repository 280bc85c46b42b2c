// Pad: y[i] = x[i - begin] inside, else a constant, or the pixel that the edge or its mirror gives.
//
//   constant   0 0 | a b c d | 0 0
//   edge       a a | a b c d | d d
//   reflect    c b | a b c d | c b
//
// A constant is stored once and doubled until it fills the output, then the input is copied into
// the middle (copy.h); the other modes are rare and go element by element (plain.h). Tested by
// test_sim_cases_moves, _float16 and test_onnx_nodes.
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"

// A constant around a copy of the input; or, where padding repeats pixels, element by element.
struct pad {
    struct copy copy;
    size_t size;      // bytes of an element of the output
    uint8_t value[8]; // of padding, as it is stored
    struct plain in, out;
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

static int pad_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct pad *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "its types are not supported");
    if (x->n_dims != y->n_dims || !x->n_elems)
        return step_refuse(s, e, "input and output differ in dimensions");
    for (uint32_t i = 0; i < x->n_dims; i++)
        if ((uint64_t)s->node->pad.begin[i] + x->dims[i] > y->dims[i])
            return step_refuse(s, e, "its output is too small in dimension %u", i);
    if (s->node->pad.mode == PAD_CONSTANT) {
        prepare_constant(s, p);
        return 0;
    }
    int r = plain_input(s, 0, &p->in, e);
    return r < 0 ? r : plain_output(s, 0, &p->out, e);
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

// Where an element of the padding comes from.
static int64_t source_of(const struct graph_node *n, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (n->pad.mode == PAD_EDGE || size == 1)
        return at < 0 ? 0 : size - 1;
    if (n->pad.mode == PAD_WRAP)
        return (at % size + size) % size;
    int64_t period = 2 * (size - 1), inside = ((at % period) + period) % period;
    return inside < size ? inside : period - inside;
}

static void pad_repeat(const struct step *s, const float *from, float *to)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int64_t strides[GRAPH_MAX_DIMS] = {0}, step = 1;
    for (uint32_t i = x->n_dims; i-- > 0; step *= x->dims[i])
        strides[i] = step;
    for (size_t k = 0; k < y->n_elems; k++) {
        size_t rest = k;
        int64_t at = 0;
        for (uint32_t i = y->n_dims; i-- > 0;) {
            int64_t own = (int64_t)(rest % y->dims[i]) - s->node->pad.begin[i];
            at += source_of(s->node, own, x->dims[i]) * strides[i];
            rest /= y->dims[i];
        }
        to[k] = from[at];
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
    pad_repeat(s, plain_load(s, r, &p->in), plain_values(s, r, &p->out));
    plain_store(s, r, &p->out);
    return 0;
}

const struct op op_pad = {.prepare = pad_prepare, .run = pad_run};
