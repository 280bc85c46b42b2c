// Runs the reference operators (ref.h) as a step of a plan:
//
// inputs -> int64 or double arrays in scratch, in the order of their dimensions -> operator
//        -> such arrays -> outputs
//
// What is in between is ref_values.h's. A move that has no need of numbers goes by bytes
// (ref_bytes.h). Tested with the operators (ref.h).
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/ref/ref.h"
#include "npu/sim/ref/ref_bytes.h"
#include "npu/sim/ref/ref_values.h"

// Offsets in scratch memory, of 8 bytes per element.
struct ref_step {
    bool lines; // a Gather of stored lines: only its indices are worked on as numbers
    bool bytes; // by ref_bytes.h: so are they here, at in[0] is its scratch memory
    uint64_t in[REF_MAX_INPUTS], out[REF_MAX_OUTPUTS], extra; // scratch
};

// Whether operators support the element type.
static bool ref_type_known(enum tensor_type type)
{
    return type <= TENSOR_BOOL;
}

int ref_fail(const struct ref_call *c, struct error *e, const char *format, ...)
{
    char words[320];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return error_set(e, STATUS_FAIL, "node %s (%s): %s", c->node->name, c->node->type, words);
}

int64_t ref_to_integer(double v)
{
    if (isnan(v))
        return 0;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

void ref_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS])
{
    struct graph_tensor plain = *t;
    plain.channels_last = false;
    graph_tensor_strides(&plain, strides);
}

void ref_walk_init(struct ref_walk *w, const struct graph_tensor *over)
{
    *w = (struct ref_walk){.n_dims = over->n_dims};
    memcpy(w->dims, over->dims, sizeof w->dims);
}

// Strides as ONNX broadcasts: aligned at the last dimension, 0 where a dimension of 1 repeats.
bool ref_walk_broadcast(struct ref_walk *w, const struct graph_tensor *t)
{
    int64_t own[GRAPH_MAX_DIMS];
    if (t->n_dims > w->n_dims || w->n_operands == 3)
        return false;
    ref_strides(t, own);
    uint32_t missing = w->n_dims - t->n_dims;
    for (uint32_t i = 0; i < w->n_dims; i++) {
        uint32_t size = i < missing ? 1 : t->dims[i - missing];
        if (size != 1 && size != w->dims[i])
            return false;
        w->strides[w->n_operands][i] = size == 1 ? 0 : own[i - missing];
    }
    w->n_operands++;
    return true;
}

// Advances like an odometer, offsets with it.
void ref_walk_next(struct ref_walk *w)
{
    for (uint32_t i = w->n_dims; i-- > 0;) {
        for (uint32_t k = 0; k < w->n_operands; k++)
            w->at[k] += w->strides[k][i];
        if (++w->index[i] < w->dims[i])
            return;
        for (uint32_t k = 0; k < w->n_operands; k++)
            w->at[k] -= w->strides[k][i] * w->dims[i];
        w->index[i] = 0;
    }
}

// ---- the operator ----

static const struct ref_operator *const ref_operators[REF_OP_COUNT] = {
#define X(symbol, object) [REF_OP_##symbol] = &object,
    GRAPH_REF_OPS(X)
#undef X
};

// Scratch memory for one tensor; NULL: an optional one that is left out.
static int ref_take(struct step *s, const struct graph_tensor *t, struct ref_tensor *w,
                    uint64_t *at, struct error *e)
{
    *w = (struct ref_tensor){.t = t};
    if (!t)
        return 0;
    if (!ref_type_known(t->type) || t->unpack)
        return step_refuse(s, e, "tensor %s: type %s is not supported", t->name,
                           tensor_type_name(t->type));
    w->real = ref_is_real(s->node, t);
    return step_scratch(s, t->n_elems * sizeof(union ref_value), at, e);
}

// Whether a Gather's output is made of lines of its input as they are stored: then a large table is
// not converted for the few of its lines that are wanted.
static bool gathers_lines(const struct step *s)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    return s->node->ref.op == REF_OP_GATHER && ref_bytes_alike(x, y) && !x->channels_last &&
           !y->channels_last && !ref_is_dequantized(s->node, x) && !ref_is_dequantized(s->node, y);
}

static int ref_prepare_step(struct step *s, struct error *e)
{
    struct ref_step *p = s->state = step_alloc(s, 1, sizeof *p);
    struct ref_call c = {.node = s->node};
    uint64_t extra = 0;
    bool bytes = ref_bytes_fits(s), lines = bytes || gathers_lines(s);
    int r = p ? 0 : error_no_memory(e, "a step", sizeof *p);
    if (s->node->n_inputs > REF_MAX_INPUTS || s->node->n_outputs > REF_MAX_OUTPUTS)
        return step_refuse(s, e, "it has too many inputs or outputs");
    for (uint32_t i = lines ? 1 : 0; i < REF_MAX_INPUTS && r == 0; i++)
        r = ref_take(s, step_input(s, i), &c.in[i], &p->in[i], e);
    for (uint32_t i = lines ? 1 : 0; i < REF_MAX_OUTPUTS && r == 0; i++)
        r = ref_take(s, step_output(s, i), &c.out[i], &p->out[i], e);
    if (r == 0 && lines) {
        p->lines = !bytes;
        p->bytes = bytes;
        c.in[0] = (struct ref_tensor){.t = step_input(s, 0)};
        c.out[0] = (struct ref_tensor){.t = step_output(s, 0)};
    }
    const struct ref_operator *op = ref_operators[s->node->ref.op];
    if (r == 0 && op->check)
        r = op->check(&c, &extra, e);
    if (r == 0 && bytes)
        r = step_scratch(s, ref_bytes_scratch(c.out[0].t), &p->in[0], e);
    return r < 0 ? r : step_scratch(s, extra * sizeof(union ref_value), &p->extra, e);
}

// int64 that stands for uint64: what is negative is too large, and no operator would get it right.
static int check_natural(const struct ref_call *c, const struct ref_tensor *w, struct error *e)
{
    for (uint64_t i = 0; w->t->natural && i < w->t->n_elems; i++)
        if (w->v[i].i < 0)
            return ref_fail(c, e,
                            "tensor %s: element %llu is %llu; uint64 is supported up to 2^63 - 1",
                            w->t->name, (unsigned long long)i, (unsigned long long)w->v[i].i);
    return 0;
}

// An empty tensor has one dimension of 0, but others may be large, and operators loop over them.
static bool gives_nothing(const struct step *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < REF_MAX_OUTPUTS; i++)
        n += step_output(s, i) ? step_output(s, i)->n_elems : 0;
    return n == 0;
}

static int ref_gather_lines(const struct step *s, struct run *r, struct error *e)
{
    const struct ref_step *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *indices = step_input(s, 1);
    struct ref_call c = {.node = s->node};
    struct nd_axis a = nd_axis(x, (uint32_t)s->node->ref.ints[0]);
    size_t line = a.inner * tensor_type_size(x->type);
    const uint8_t *from = run_input(s, r, 0);
    uint8_t *to = run_output(s, r, 0);
    c.in[1] = (struct ref_tensor){indices, false, run_scratch(r, p->in[1])};
    ref_load(s->node, indices, run_input(s, r, 1), c.in[1].v);
    int status = check_natural(&c, &c.in[1], e);
    for (uint64_t o = 0; o < a.outer && status == 0; o++, from += a.size * line)
        for (uint64_t k = 0; k < indices->n_elems && status == 0; k++, to += line) {
            uint64_t at = 0;
            status = ref_resolve(&c, c.in[1].v[k].i, a.size, &at, e);
            if (status == 0)
                memcpy(to, from + at * line, line);
        }
    return status;
}

static int ref_pick_bytes(const struct step *s, struct run *r, struct error *e)
{
    const struct ref_step *p = s->state;
    const struct graph_tensor *indices = step_input(s, 1);
    struct ref_call c = {.node = s->node};
    int status = 0;
    c.in[0].t = step_input(s, 0);
    c.out[0].t = step_output(s, 0);
    if (s->node->ref.op == REF_OP_GATHER) {
        c.in[1] = (struct ref_tensor){indices, false, run_scratch(r, p->in[1])};
        ref_load(s->node, indices, run_input(s, r, 1), c.in[1].v);
        status = check_natural(&c, &c.in[1], e);
    }
    return status < 0 ? status
                      : ref_bytes_move(&c, run_input(s, r, 0), run_output(s, r, 0),
                                       run_scratch(r, p->in[0]), e);
}

static int ref_run_step(const struct step *s, struct run *r, struct error *e)
{
    if (gives_nothing(s))
        return 0;
    const struct ref_step *p = s->state;
    if (p->bytes)
        return ref_pick_bytes(s, r, e);
    if (p->lines)
        return ref_gather_lines(s, r, e);
    struct ref_call c = {.node = s->node, .extra = run_scratch(r, p->extra)};
    int status = 0;
    for (uint32_t i = 0; i < REF_MAX_INPUTS && status == 0; i++) {
        const struct graph_tensor *t = step_input(s, i);
        if (!t)
            continue;
        c.in[i] = (struct ref_tensor){t, ref_is_real(s->node, t), run_scratch(r, p->in[i])};
        ref_load(s->node, t, run_input(s, r, i), c.in[i].v);
        status = check_natural(&c, &c.in[i], e);
    }
    for (uint32_t i = 0; i < REF_MAX_OUTPUTS; i++) {
        const struct graph_tensor *t = step_output(s, i);
        if (t)
            c.out[i] = (struct ref_tensor){t, ref_is_real(s->node, t), run_scratch(r, p->out[i])};
    }
    if (status == 0)
        status = ref_operators[s->node->ref.op]->run(&c, e);
    for (uint32_t i = 0; i < REF_MAX_OUTPUTS && status == 0; i++) {
        if (!c.out[i].t)
            continue;
        status = check_natural(&c, &c.out[i], e);
        if (status == 0)
            ref_store(s->node, c.out[i].t, run_output(s, r, i), c.out[i].v);
    }
    return status;
}

const struct op op_ref = {.prepare = ref_prepare_step, .run = ref_run_step, .on_constant = true};
