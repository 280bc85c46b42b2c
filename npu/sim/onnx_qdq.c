// Turns nodes between DequantizeLinear and QuantizeLinear into nodes on 8-bit numbers. Unsigned
// tensors become signed ones with a zero point that is smaller by 128: the same sums.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/onnx_lower.h"

#define DROPPED GRAPH_OP_COUNT

struct qdq {
    struct onnx_lowering *l;
    struct graph *g;
    int32_t *producer; // of each tensor: a node, or -1
    uint32_t *n_reads; // outputs of the model count as one
    bool *narrow;      // of each tensor: it is kept as signed 8-bit numbers
};

// ---- scales ----

struct form {
    enum tensor_type type;
    float scale;
    int64_t zp;
};

static int64_t whole_number(const struct graph_tensor *t, uint64_t i)
{
    if (t->type == TENSOR_INT32)
        return (int32_t)read_le32(t->data.data + 4 * i);
    return t->type == TENSOR_INT8 ? (int8_t)t->data.data[i] : t->data.data[i];
}

// The scale and zero point of a node that quantizes or dequantizes; false: not one constant each.
static bool form_of(const struct graph *g, const struct graph_node *n, enum tensor_type type,
                    struct form *ret)
{
    const struct graph_tensor *scale = &g->tensors[n->inputs[1]];
    const struct graph_tensor *zp =
        n->n_inputs > 2 && n->inputs[2] >= 0 ? &g->tensors[n->inputs[2]] : NULL;
    if ((type != TENSOR_INT8 && type != TENSOR_UINT8) || !scale->constant || scale->n_elems != 1 ||
        scale->type != TENSOR_FLOAT32 || (zp && !zp->constant) || (zp && zp->type != type))
        return false;
    graph_tensor_floats(scale, &ret->scale);
    ret->type = type;
    ret->zp = zp ? whole_number(zp, 0) : 0;
    return ret->scale > 0;
}

static bool same_form(const struct form *a, const struct form *b)
{
    return a->type == b->type && a->scale == b->scale && a->zp == b->zp;
}

static bool is_wide(const struct graph_node *n, const struct wide_operator *operator)
{
    return n->op == GRAPH_WIDE && n->wide.operator== operator;
}

// ---- which tensors become narrow ----

static void count(struct qdq *q)
{
    struct graph *g = q->g;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        q->producer[i] = -1;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if (n->inputs[k] >= 0)
                q->n_reads[n->inputs[k]]++;
        for (uint32_t k = 0; k < n->n_outputs; k++)
            if (n->outputs[k] >= 0)
                q->producer[n->outputs[k]] = (int32_t)i;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        q->n_reads[g->outputs[i]]++;
}

// A tensor that only passes from a quantization to dequantizations with the same scale.
static void find_narrow(struct qdq *q)
{
    struct graph *g = q->g;
    struct form form, other;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (!is_wide(n, &wide_quantize))
            continue;
        const struct graph_tensor *x = &g->tensors[n->inputs[0]];
        struct graph_tensor *y = &g->tensors[n->outputs[0]];
        if (x->type != TENSOR_FLOAT32 || !form_of(g, n, y->type, &form))
            continue;
        q->narrow[n->outputs[0]] = true;
        y->scale = form.scale;
        y->zp = (int32_t)form.zp;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs; k++) {
            if (n->inputs[k] < 0 || !q->narrow[n->inputs[k]])
                continue;
            const struct graph_tensor *t = &g->tensors[n->inputs[k]];
            struct form own = {t->type, t->scale, t->zp};
            q->narrow[n->inputs[k]] = is_wide(n, &wide_dequantize) && k == 0 &&
                                      form_of(g, n, t->type, &other) && same_form(&own, &other);
        }
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        q->narrow[g->outputs[i]] = false;
}

static void make_narrow(struct qdq *q)
{
    struct graph *g = q->g;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        struct graph_tensor *t = &g->tensors[i];
        if (!q->narrow[i]) {
            t->scale = 0;
            t->zp = 0;
            continue;
        }
        t->quantized = true;
        t->whole_steps = true;
        t->zp -= t->type == TENSOR_UINT8 ? 128 : 0;
        t->type = TENSOR_INT8;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct graph_node *n = &g->nodes[i];
        if (is_wide(n, &wide_quantize) && q->narrow[n->outputs[0]])
            n->op = GRAPH_QUANTIZE;
        else if (is_wide(n, &wide_dequantize) && q->narrow[n->inputs[0]])
            n->op = GRAPH_CONVERT;
        else
            continue;
        n->n_inputs = 1;
        n->on_cpu = false;
    }
}

// ---- nodes between narrow tensors ----

// The narrow tensor behind a float one; -1: there is none.
static int32_t narrow_source(const struct qdq *q, int32_t tensor)
{
    const struct graph_node *n =
        tensor < 0 || q->producer[tensor] < 0 ? NULL : &q->g->nodes[q->producer[tensor]];
    return n && n->op == GRAPH_CONVERT && q->narrow[n->inputs[0]] ? n->inputs[0] : -1;
}

static struct graph_node *sole_source(const struct qdq *q, int32_t tensor)
{
    if (tensor < 0 || q->n_reads[tensor] != 1 || q->producer[tensor] < 0)
        return NULL;
    return &q->g->nodes[q->producer[tensor]];
}

// Activations that saturation does anyway are passed over.
static struct graph_node *behind_activations(const struct qdq *q, int32_t tensor,
                                             const struct graph_tensor *y)
{
    struct graph_node *n = sole_source(q, tensor);
    while (n && n->op == GRAPH_UNARY && n->n_post == 1) {
        const struct graph_post *p = &n->post[0];
        float top = (float)(127 - y->zp) * y->scale;
        bool relu = p->kind == POST_RELU && y->zp == -128;
        bool clip = p->kind == POST_CLIP && p->alpha == 0 && y->zp == -128 && top <= p->beta;
        if (!relu && !clip)
            return NULL;
        n = sole_source(q, n->inputs[0]);
    }
    return n;
}

static const struct onnx_origin *origin_of(const struct qdq *q, int32_t tensor)
{
    for (uint32_t i = 0; i < q->l->n_origins; i++)
        if (q->l->origins[i].tensor == tensor)
            return &q->l->origins[i];
    return NULL;
}

// The weight as signed numbers, in memory of its own where the file has unsigned ones.
static int32_t signed_weight(struct qdq *q, int32_t index)
{
    const struct graph_tensor *w = &q->g->tensors[index];
    if (w->type == TENSOR_INT8)
        return index;
    uint8_t *data = pool_alloc(&q->g->pool, w->n_elems, 1);
    if (!data)
        return -1;
    for (uint64_t i = 0; i < w->n_elems; i++)
        data[i] = w->data.data[i] ^ 0x80;
    struct graph_tensor *t = &q->g->tensors[q->g->n_tensors];
    *t = *w;
    t->type = TENSOR_INT8;
    t->data.data = data;
    return (int32_t)q->g->n_tensors++;
}

// What is needed to make a convolution one of integers; false: it stays one of floats.
struct operands {
    int32_t x, w;
    const struct graph_tensor *weight, *w_scale, *w_zp, *bias;
};

static bool take_operands(const struct qdq *q, const struct graph_node *n, struct operands *o)
{
    const struct graph *g = q->g;
    const struct onnx_origin *w = origin_of(q, n->inputs[1]);
    bool has_bias = n->n_inputs > 2 && n->inputs[2] >= 0;
    const struct onnx_origin *b = has_bias ? origin_of(q, n->inputs[2]) : NULL;
    *o = (struct operands){.x = narrow_source(q, n->inputs[0])};
    if (o->x < 0 || !w || (has_bias && !b))
        return false;
    o->w = w->q;
    o->weight = &g->tensors[w->q];
    o->w_scale = &g->tensors[w->scale];
    o->w_zp = w->zp < 0 ? NULL : &g->tensors[w->zp];
    o->bias = b ? &g->tensors[b->q] : NULL;
    uint32_t channels = o->weight->dims[0];
    uint64_t n_scales = o->w_scale->n_elems;
    return (o->weight->type == TENSOR_INT8 || o->weight->type == TENSOR_UINT8) &&
           o->weight->n_dims == 4 && o->w_scale->constant && o->w_scale->type == TENSOR_FLOAT32 &&
           (n_scales == 1 || (n_scales == channels && w->axis == 0)) &&
           (!o->w_zp || (o->w_zp->constant && o->w_zp->n_elems == n_scales)) &&
           (!o->bias || (o->bias->type == TENSOR_INT32 && o->bias->n_elems == channels &&
                         (b->zp < 0 || whole_number(&g->tensors[b->zp], 0) == 0)));
}

// Scales as ONNX Runtime computes them: steps of the output for each product of steps.
static bool fill_quant(struct qdq *q, const struct operands *o, const struct graph_tensor *y,
                       struct graph_conv_quant *quant)
{
    struct pool *pool = &q->g->pool;
    uint32_t channels = o->weight->dims[0];
    float x_scale = q->g->tensors[o->x].scale;
    float *scales = pool_alloc(pool, o->w_scale->n_elems, sizeof *scales);
    *quant = (struct graph_conv_quant){.n = channels,
                                       .in_steps = true,
                                       .scale = pool_alloc(pool, channels, sizeof *quant->scale),
                                       .bias = pool_alloc(pool, channels, sizeof *quant->bias),
                                       .nz = pool_alloc(pool, channels, sizeof *quant->nz)};
    if (!scales || !quant->scale || !quant->bias || !quant->nz)
        return false;
    graph_tensor_floats(o->w_scale, scales);
    for (uint32_t c = 0; c < channels; c++) {
        uint32_t k = o->w_scale->n_elems == 1 ? 0 : c;
        int64_t zp = o->w_zp ? whole_number(o->w_zp, k) : 0;
        quant->scale[c] = x_scale * scales[k] / y->scale;
        quant->bias[c] = o->bias ? (int32_t)whole_number(o->bias, c) : 0;
        quant->nz[c] = (int16_t)(o->weight->type == TENSOR_UINT8 ? 128 - zp : -zp);
    }
    return true;
}

static int narrow_conv(struct qdq *q, struct graph_node *n, int32_t y, struct error *e)
{
    struct operands o;
    if (n->n_post || !take_operands(q, n, &o))
        return 0;
    struct graph_conv_quant *quant = pool_alloc(&q->g->pool, 1, sizeof *quant);
    int32_t *edges = pool_alloc(&q->g->pool, 3, sizeof *edges);
    if (!quant || !edges || !fill_quant(q, &o, &q->g->tensors[y], quant))
        return error_no_memory(e, "a convolution", 0);
    int32_t w = signed_weight(q, o.w);
    if (w < 0)
        return error_no_memory(e, "a weight", 0);
    edges[0] = o.x;
    edges[1] = w;
    edges[2] = y;
    n->quant = quant;
    n->inputs = edges;
    n->n_inputs = 2;
    n->outputs = edges + 2;
    return 1;
}

static bool moves_only(const struct graph_node *n)
{
    return n->op == GRAPH_MAX_POOL || n->op == GRAPH_RESHAPE || n->op == GRAPH_CONCAT ||
           n->op == GRAPH_TRANSPOSE || n->op == GRAPH_SLICE;
}

// Nodes that only move elements do so with stored ones, where all have the same scale.
static int narrow_move(struct qdq *q, struct graph_node *n, int32_t y, struct error *e)
{
    const struct graph_tensor *to = &q->g->tensors[y];
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        int32_t x = narrow_source(q, n->inputs[k]);
        if (x < 0 || q->g->tensors[x].scale != to->scale || q->g->tensors[x].zp != to->zp)
            return 0;
    }
    int32_t *edges = pool_alloc(&q->g->pool, n->n_inputs + 1, sizeof *edges);
    if (!edges)
        return error_no_memory(e, "a node", 0);
    for (uint32_t k = 0; k < n->n_inputs; k++)
        edges[k] = narrow_source(q, n->inputs[k]);
    edges[n->n_inputs] = y;
    n->inputs = edges;
    n->outputs = edges + n->n_inputs;
    return 1;
}

// 1: the quantization is done by the node before it.
static int narrow_one(struct qdq *q, struct graph_node *quantize, struct error *e)
{
    int32_t y = quantize->outputs[0];
    struct graph_node *n = behind_activations(q, quantize->inputs[0], &q->g->tensors[y]);
    int r = 0;
    if (n && n->op == GRAPH_CONV && !n->quant)
        r = narrow_conv(q, n, y, e);
    else if (n && moves_only(n) && !n->n_post)
        r = narrow_move(q, n, y, e);
    if (r == 1)
        q->producer[y] = (int32_t)(n - q->g->nodes);
    return r;
}

static int narrow_all(struct qdq *q, struct error *e)
{
    struct graph *g = q->g;
    count(q);
    find_narrow(q);
    make_narrow(q);
    uint32_t kept = 0;
    bool *done = calloc((size_t)g->n_nodes + 1, sizeof *done);
    int r = done ? 0 : error_no_memory(e, "the graph", g->n_nodes);
    for (uint32_t i = 0; i < g->n_nodes && r >= 0; i++) {
        if (g->nodes[i].op != GRAPH_QUANTIZE)
            continue;
        r = narrow_one(q, &g->nodes[i], e);
        done[i] = r == 1;
    }
    for (uint32_t i = 0; i < g->n_nodes && r >= 0; i++)
        if (!done[i])
            g->nodes[kept++] = g->nodes[i];
    g->n_nodes = r >= 0 ? kept : g->n_nodes;
    free(done);
    return r < 0 ? r : 0;
}

// One more tensor for each node: a weight.
static int make_room(struct graph *g, size_t room, struct error *e)
{
    struct graph_tensor *tensors = pool_alloc(&g->pool, room, sizeof *tensors);
    if (!tensors)
        return error_no_memory(e, "the graph", room * sizeof *tensors);
    if (g->n_tensors)
        memcpy(tensors, g->tensors, g->n_tensors * sizeof *tensors);
    g->tensors = tensors;
    return 0;
}

int onnx_qdq(struct onnx_lowering *l, struct error *e)
{
    if (!l->n_origins)
        return 0;
    size_t room = (size_t)l->g->n_tensors + l->g->n_nodes + 1;
    cleanup(free_p) int32_t *producer = calloc(room, sizeof *producer);
    cleanup(free_p) uint32_t *n_reads = calloc(room, sizeof *n_reads);
    cleanup(free_p) bool *narrow = calloc(room, sizeof *narrow);
    struct qdq q = {l, l->g, producer, n_reads, narrow};
    if (!producer || !n_reads || !narrow)
        return error_no_memory(e, "the graph", room);
    int r = make_room(l->g, room, e);
    return r < 0 ? r : narrow_all(&q, e);
}
