// Runs the operators on wide numbers.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/ref/ref.h"
#include "tensor/convert.h"

struct wide_step {
    uint64_t in[WIDE_MAX_INPUTS], out[WIDE_MAX_OUTPUTS], extra; // scratch
};

bool wide_type_known(enum tensor_type type)
{
    return type <= TENSOR_BOOL;
}

int wide_fail(const struct wide_call *c, struct error *e, const char *format, ...)
{
    char words[320];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return error_set(e, STATUS_FAIL, "node %s (%s): %s", c->node->name, c->node->type, words);
}

int64_t wide_whole(double v)
{
    if (isnan(v))
        return 0;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

struct wide_along wide_along(const struct graph_tensor *t, int64_t axis)
{
    struct wide_along a = {1, t->dims[axis], 1};
    for (uint32_t i = 0; i < t->n_dims; i++) {
        a.outer *= i < axis ? t->dims[i] : 1;
        a.inner *= i > axis ? t->dims[i] : 1;
    }
    return a;
}

void wide_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS])
{
    struct graph_tensor plain = *t;
    plain.channels_last = false;
    graph_tensor_strides(&plain, strides);
}

void wide_walk_init(struct wide_walk *w, const struct graph_tensor *over)
{
    *w = (struct wide_walk){.n_dims = over->n_dims};
    memcpy(w->dims, over->dims, sizeof w->dims);
}

bool wide_walk_broadcast(struct wide_walk *w, const struct graph_tensor *t)
{
    int64_t own[GRAPH_MAX_DIMS];
    if (t->n_dims > w->n_dims || w->n_operands == 3)
        return false;
    wide_strides(t, own);
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

void wide_walk_next(struct wide_walk *w)
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

// ---- stored elements ----

static float read_float(const uint8_t *p)
{
    return bits_float(read_le32(p));
}

static union wide load_one(enum tensor_type type, const uint8_t *p)
{
    switch (type) {
    case TENSOR_FLOAT32:
        return (union wide){.r = (double)read_float(p)};
    case TENSOR_FLOAT16:
        return (union wide){.r = (double)convert_half_to_float(read_le16(p))};
    case TENSOR_INT8:
        return (union wide){.i = (int8_t)*p};
    case TENSOR_UINT8:
        return (union wide){.i = *p};
    case TENSOR_BOOL:
        return (union wide){.i = *p != 0};
    case TENSOR_INT16:
        return (union wide){.i = (int16_t)read_le16(p)};
    case TENSOR_UINT16:
        return (union wide){.i = read_le16(p)};
    case TENSOR_INT32:
        return (union wide){.i = (int32_t)read_le32(p)};
    case TENSOR_UINT32:
        return (union wide){.i = read_le32(p)};
    default:
        return (union wide){.i = (int64_t)read_le64(p)};
    }
}

// Integers wrap, as they do in the machine.
static void store_one(enum tensor_type type, uint8_t *p, union wide v)
{
    switch (type) {
    case TENSOR_FLOAT32:
        write_le32(p, float_bits((float)v.r));
        return;
    case TENSOR_FLOAT16:
        write_le16(p, convert_float_to_half((float)v.r));
        return;
    case TENSOR_BOOL:
        *p = v.i != 0;
        return;
    case TENSOR_INT8:
    case TENSOR_UINT8:
        *p = (uint8_t)v.i;
        return;
    case TENSOR_INT16:
    case TENSOR_UINT16:
        write_le16(p, (uint16_t)v.i);
        return;
    case TENSOR_INT32:
    case TENSOR_UINT32:
        write_le32(p, (uint32_t)v.i);
        return;
    default:
        write_le64(p, (uint64_t)v.i);
    }
}

// Whether a tensor is worked on as the real numbers that its integers stand for.
static bool is_dequantized(const struct graph_node *n, const struct graph_tensor *t)
{
    return n->wide.dequantize && t->quantized;
}

static bool is_real(const struct graph_node *n, const struct graph_tensor *t)
{
    return t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16 || is_dequantized(n, t);
}

static union wide dequantize(const struct graph_tensor *t, union wide v)
{
    return (union wide){.r = (double)(v.i - t->zp) * (double)t->scale};
}

static union wide quantize(const struct graph_tensor *t, union wide v)
{
    double low = t->type == TENSOR_UINT8 ? 0 : t->type == TENSOR_INT8 ? INT8_MIN : INT16_MIN;
    double high = t->type == TENSOR_UINT8  ? UINT8_MAX
                  : t->type == TENSOR_INT8 ? INT8_MAX
                                           : INT16_MAX;
    double steps = rint(v.r / (double)t->scale + t->zp);
    return (union wide){.i = (int64_t)fmin(fmax(steps, low), high)};
}

static void load(const struct graph_node *n, const struct graph_tensor *t, const uint8_t *src,
                 union wide *dst)
{
    bool reals = is_dequantized(n, t);
    int64_t strides[GRAPH_MAX_DIMS];
    size_t element = tensor_type_size(t->type);
    struct wide_walk w;
    wide_walk_init(&w, t);
    graph_tensor_strides(t, strides);
    memcpy(w.strides[0], strides, sizeof strides);
    w.n_operands = 1;
    for (uint64_t k = 0; k < t->n_elems; k++, wide_walk_next(&w)) {
        dst[k] = load_one(t->type, src + w.at[0] * (int64_t)element);
        if (reals)
            dst[k] = dequantize(t, dst[k]);
    }
}

static void store(const struct graph_node *n, const struct graph_tensor *t, uint8_t *dst,
                  const union wide *src)
{
    bool reals = is_dequantized(n, t);
    size_t element = tensor_type_size(t->type);
    struct wide_walk w;
    wide_walk_init(&w, t);
    graph_tensor_strides(t, w.strides[0]);
    w.n_operands = 1;
    for (uint64_t k = 0; k < t->n_elems; k++, wide_walk_next(&w))
        store_one(t->type, dst + w.at[0] * (int64_t)element, reals ? quantize(t, src[k]) : src[k]);
}

// ---- the operator ----

static int take(struct step *s, const struct graph_tensor *t, struct wide_tensor *w, uint64_t *at,
                struct error *e)
{
    *w = (struct wide_tensor){.t = t};
    if (!t)
        return 0;
    if (!wide_type_known(t->type) || t->unpack)
        return step_refuse(s, e, "tensor %s: type %s is not supported", t->name,
                           tensor_type_name(t->type));
    w->real = is_real(s->node, t);
    return step_scratch(s, t->n_elems * sizeof(union wide), at, e);
}

static int prepare(struct step *s, struct error *e)
{
    struct wide_step *p = s->state = step_alloc(s, 1, sizeof *p);
    struct wide_call c = {.node = s->node};
    uint64_t extra = 0;
    int r = p ? 0 : error_no_memory(e, "a step", sizeof *p);
    if (s->node->n_inputs > WIDE_MAX_INPUTS || s->node->n_outputs > WIDE_MAX_OUTPUTS)
        return step_refuse(s, e, "it has too many inputs or outputs");
    for (uint32_t i = 0; i < WIDE_MAX_INPUTS && r == 0; i++)
        r = take(s, step_input(s, i), &c.in[i], &p->in[i], e);
    for (uint32_t i = 0; i < WIDE_MAX_OUTPUTS && r == 0; i++)
        r = take(s, step_output(s, i), &c.out[i], &p->out[i], e);
    if (r == 0 && s->node->wide.operator->check)
        r = s->node->wide.operator->check(&c, &extra, e);
    return r < 0 ? r : step_scratch(s, extra * sizeof(union wide), &p->extra, e);
}

// Dimensions of an empty tensor may be large, and operators go through them.
static bool gives_nothing(const struct step *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < WIDE_MAX_OUTPUTS; i++)
        n += step_output(s, i) ? step_output(s, i)->n_elems : 0;
    return n == 0;
}

static int run(const struct step *s, struct run *r, struct error *e)
{
    if (gives_nothing(s))
        return 0;
    const struct wide_step *p = s->state;
    struct wide_call c = {.node = s->node, .extra = run_scratch(r, p->extra)};
    for (uint32_t i = 0; i < WIDE_MAX_INPUTS; i++) {
        const struct graph_tensor *t = step_input(s, i);
        if (!t)
            continue;
        c.in[i] = (struct wide_tensor){t, is_real(s->node, t), run_scratch(r, p->in[i])};
        load(s->node, t, run_input(s, r, i), c.in[i].v);
    }
    for (uint32_t i = 0; i < WIDE_MAX_OUTPUTS; i++) {
        const struct graph_tensor *t = step_output(s, i);
        if (t)
            c.out[i] = (struct wide_tensor){t, is_real(s->node, t), run_scratch(r, p->out[i])};
    }
    int status = s->node->wide.operator->run(&c, e);
    for (uint32_t i = 0; i < WIDE_MAX_OUTPUTS && status == 0; i++)
        if (c.out[i].t)
            store(s->node, c.out[i].t, run_output(s, r, i), c.out[i].v);
    return status;
}

const struct op op_wide = {.prepare = prepare, .run = run};
