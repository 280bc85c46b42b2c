// What comes before a QuantizeLinear, computed on int8 tensors:
//
//      chain of functions of one tensor    a table of 256 entries (onnx_qdq_tables.c)
//      Add, Mul of two                     the same node on int8
//      AveragePool, Softmax, Concat        the same node on int8
//      moves (Reshape, Transpose ...)      quantized before the move instead of after
//      Conv, MatMul                        onnx_qdq_products.c
//
// Functions return 1 when they have emitted nodes, 0 when it cannot be done (the float nodes stay),
// or an error.
#include "npu/model/onnx/onnx_qdq.h"

#define MAX_DEPTH 8 // of moves between a node and its quantization

// A new int8 tensor of the same shape; 1, as nodes answer.
static int result(struct qdq *q, int32_t like, struct qdq_form form, int32_t *ret, struct error *e)
{
    *ret = qdq_int8(q, like, form, e);
    return *ret < 0 ? *ret : 1;
}

// ---- arithmetic ----

// A constant that the file has as 8-bit numbers, as an int8 tensor. -1: it is not one (or memory
// is short: the float node then stays).
static int32_t find_int8_constant(struct qdq *q, int32_t tensor, struct error *e)
{
    const struct onnx_origin *o = qdq_origin(q, tensor);
    const struct graph_tensor *t = o ? &q->g->tensors[o->q] : NULL;
    if (!t || !qdq_is_known(t) || (t->type != TENSOR_INT8 && t->type != TENSOR_UINT8) ||
        !q->g->tensors[o->scale].constant || q->g->tensors[o->scale].n_elems != 1 ||
        q->g->tensors[o->scale].type != TENSOR_FLOAT32 ||
        (o->zp >= 0 && !qdq_is_known(&q->g->tensors[o->zp])))
        return -1;
    struct qdq_form form = {.zp = o->zp < 0 ? 0
                                            : (int32_t)qdq_whole_number(&q->g->tensors[o->zp], 0)};
    graph_tensor_floats(&q->g->tensors[o->scale], &form.scale);
    uint8_t moved = t->type == TENSOR_UINT8 ? 0x80 : 0;
    uint8_t *data = pool_alloc(&q->g->pool, t->n_elems, 1);
    form.zp -= moved;
    form.counts_from_0 = moved;
    if (!data || !(form.scale > 0))
        return -1;
    for (uint64_t i = 0; i < t->n_elems; i++)
        data[i] = t->data.data[i] ^ moved;
    int32_t int8 = qdq_int8(q, o->q, form, e);
    if (int8 < 0)
        return -1;
    q->g->tensors[int8].constant = true;
    q->g->tensors[int8].data = (struct bytes){data, t->n_elems};
    return int8;
}

// The tensor that x is a table of, or x itself.
static int32_t root_of(const struct qdq *q, int32_t x)
{
    return q->map[x] ? q->map_source[x] : x;
}

// f(x) * g(x), both x itself or tables of it (Swish, for example), depends on x alone: so it is one
// table of x.
static int emit_joined(struct qdq *q, const struct graph_node *n, const int32_t x[2], int32_t y,
                       struct error *e)
{
    int8_t all[256], product[256];
    for (int i = 0; i < 256; i++)
        all[i] = (int8_t)i;
    const struct graph_tensor *forms[] = {&q->g->tensors[x[0]], &q->g->tensors[x[1]],
                                          &q->g->tensors[y]};
    q->l->executor->multiply(forms, q->map[x[0]] ? q->map[x[0]] : all,
                             q->map[x[1]] ? q->map[x[1]] : all, product, 256);
    return qdq_emit_map(q, n, product, root_of(q, x[0]), y, e);
}

// Whether they are tables of one tensor, element by element.
static bool is_joined(const struct qdq *q, const int32_t x[2])
{
    return root_of(q, x[0]) == root_of(q, x[1]) && (q->map[x[0]] || q->map[x[1]]);
}

// Add or Mul of two int8 tensors or constants.
static int binary(struct qdq *q, const struct graph_node *n, int32_t like, struct qdq_form form,
                  int32_t *ret, struct error *e)
{
    int32_t x[2];
    for (uint32_t k = 0; k < 2; k++) {
        x[k] = q->source[n->inputs[k]];
        x[k] = x[k] < 0 ? find_int8_constant(q, n->inputs[k], e) : x[k];
        if (x[k] < 0)
            return 0;
    }
    int r = result(q, like, form, ret, e);
    if (r < 0)
        return r;
    if (n->op == GRAPH_MUL && is_joined(q, x))
        return emit_joined(q, n, x, *ret, e) < 0 ? STATUS_MALLOC_FAIL : 1;
    return qdq_emit(q, n->op, n, x, 2, ret, 1, e) ? 1 : STATUS_MALLOC_FAIL;
}

// ---- averages, Softmax ----

// Whether the int8 kernels can do this node.
static bool takes_int8(const struct graph_node *n)
{
    if (n->op == GRAPH_AVERAGE_POOL)
        return n->window.dilation[0] == 1 && n->window.dilation[1] == 1;
    return n->op == GRAPH_SOFTMAX;
}

// The node's own parameters with int8 edges.
static int emit_alike(struct qdq *q, const struct graph_node *n, const int32_t *x, const int32_t *y,
                      struct error *e)
{
    struct graph_node *fresh = qdq_emit(q, n->op, n, x, n->n_inputs, y, n->n_outputs, e);
    if (!fresh)
        return STATUS_MALLOC_FAIL;
    struct graph_node own = *n;
    own.inputs = fresh->inputs;
    own.outputs = fresh->outputs;
    *fresh = own;
    return 1;
}

// Nodes of one input. Signed and unsigned files differ in ONNX Runtime's arithmetic, so both sides
// must agree.
static int single(struct qdq *q, const struct graph_node *n, int32_t like, struct qdq_form form,
                  int32_t *ret, struct error *e)
{
    int32_t x = q->source[n->inputs[0]];
    if (x < 0 || !takes_int8(n) || q->g->tensors[x].counts_from_0 != form.counts_from_0)
        return 0;
    int r = result(q, like, form, ret, e);
    return r < 0 ? r : emit_alike(q, n, &x, ret, e);
}

// ---- moves ----

// Nodes that copy elements or choose among them: quantizing before or after gives the same.
static bool only_moves(const struct graph_node *n)
{
    switch (n->op) {
    case GRAPH_MAX_POOL:
        return n->n_outputs == 1 && !n->n_post;
    case GRAPH_RESIZE:
        return n->resize.mode == INTERPOLATE_NEAREST;
    case GRAPH_RESHAPE:
    case GRAPH_TRANSPOSE:
    case GRAPH_SLICE:
    case GRAPH_SPLIT:
    case GRAPH_EXPAND:
    case GRAPH_CONCAT:
        return !n->n_post;
    default:
        return false;
    }
}

// The int8 sources of all inputs, which have one form; false: they are not there.
static bool take_sources(const struct qdq *q, const struct graph_node *n, int32_t *x)
{
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        x[k] = n->inputs[k] < 0 ? -1 : q->source[n->inputs[k]];
        if (x[k] < 0 || !qdq_same_form(qdq_form_of(q, x[k]), qdq_form_of(q, x[0])))
            return false;
    }
    return n->n_inputs > 0;
}

// What the node was to give, for those who still read it: the real numbers, or the file's own bytes
// where it moves these, which another scale may be read by.
static int emit_moved(struct qdq *q, const struct graph_node *n, int32_t x, int32_t y,
                      struct error *e)
{
    const enum tensor_type type = q->g->tensors[y].type;
    if (type == TENSOR_UINT8 || type == TENSOR_INT8)
        return qdq_emit_as_stored(q, n, x, y, e);
    return qdq_emit(q, GRAPH_CONVERT, n, &x, 1, &y, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Moves an int8 tensor instead of the real numbers.
int qdq_moved(struct qdq *q, const struct graph_node *n, struct error *e)
{
    if (!only_moves(n) || n->n_inputs > ONNX_MAX_EDGES || n->n_outputs > ONNX_MAX_EDGES)
        return 0;
    int32_t x[ONNX_MAX_EDGES], y[ONNX_MAX_EDGES];
    if (!take_sources(q, n, x))
        return 0;
    for (uint32_t k = 0; k < n->n_outputs; k++) {
        y[k] = n->outputs[k] < 0 ? -1 : qdq_int8(q, n->outputs[k], qdq_form_of(q, x[0]), e);
        if (y[k] < 0)
            return n->outputs[k] < 0 ? 0 : y[k];
    }
    if (emit_alike(q, n, x, y, e) < 0)
        return STATUS_MALLOC_FAIL;
    for (uint32_t k = 0; k < n->n_outputs; k++) {
        q->source[n->outputs[k]] = y[k];
        int r = emit_moved(q, n, y[k], n->outputs[k], e);
        if (r < 0)
            return r;
    }
    return 1;
}

// Each input is brought to the output's scale and zero point by a table first.
static int concat(struct qdq *q, const struct graph_node *n, int32_t like, struct qdq_form form,
                  int32_t *ret, struct error *e)
{
    int32_t x[ONNX_MAX_EDGES];
    for (uint32_t k = 0; k < n->n_inputs; k++)
        if (n->n_inputs > ONNX_MAX_EDGES || n->inputs[k] < 0 || q->source[n->inputs[k]] < 0)
            return 0;
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        int r = qdq_requantized(q, q->source[n->inputs[k]], form, n, &x[k], e);
        if (r < 0)
            return r;
    }
    int r = result(q, like, form, ret, e);
    return r < 0 ? r : emit_alike(q, n, x, ret, e);
}

// ---- all of them ----

// The node before `x`, past activations that saturation does anyway: Relu where the smallest
// quantized value is 0 or more, Clip outside of the range.
static const struct graph_node *behind_activations(const struct qdq *q, int32_t x,
                                                   struct qdq_form form)
{
    const struct graph_node *n = qdq_sole_source(q, x);
    float low = (float)(-128 - form.zp) * form.scale, top = (float)(127 - form.zp) * form.scale;
    while (n && n->op == GRAPH_UNARY && n->n_post == 1) {
        const struct graph_post *p = &n->post[0];
        bool relu = p->kind == POST_RELU && low >= 0;
        bool clip = p->kind == POST_CLIP && p->alpha <= low && top <= p->beta;
        if (!relu && !clip)
            return NULL;
        n = qdq_sole_source(q, n->inputs[0]);
    }
    return n && n->n_post ? NULL : n;
}

static int quantized(struct qdq *q, int32_t x, struct qdq_form form, int depth, int32_t *ret,
                     struct error *e);

// Recursion is bounded by MAX_DEPTH, as files can chain moves at will.
static int before_move(struct qdq *q, const struct graph_node *n, int32_t like,
                       struct qdq_form form, int depth, int32_t *ret, struct error *e)
{
    int32_t x;
    if (!only_moves(n) || n->n_inputs != 1 || n->n_outputs != 1 || depth == MAX_DEPTH)
        return 0;
    int r = quantized(q, n->inputs[0], form, depth + 1, &x, e);
    if (r == 1)
        r = result(q, like, form, ret, e);
    return r == 1 ? emit_alike(q, n, &x, ret, e) : r;
}

static int quantized(struct qdq *q, int32_t x, struct qdq_form form, int depth, int32_t *ret,
                     struct error *e)
{
    int r = qdq_table(q, x, form, ret, e);
    if (r != 0)
        return r;
    const struct graph_node *n = behind_activations(q, x, form);
    switch (n ? n->op : GRAPH_OP_COUNT) {
    case GRAPH_CONV:
    case GRAPH_MAT_MUL:
        return qdq_product(q, n, x, form, ret, e);
    case GRAPH_ADD:
    case GRAPH_MUL:
        return binary(q, n, x, form, ret, e);
    case GRAPH_AVERAGE_POOL:
    case GRAPH_SOFTMAX:
        return single(q, n, x, form, ret, e);
    case GRAPH_CONCAT:
        return concat(q, n, x, form, ret, e);
    case GRAPH_OP_COUNT:
        return 0;
    default:
        return before_move(q, n, x, form, depth, ret, e);
    }
}

int qdq_quantized(struct qdq *q, int32_t x, struct qdq_form form, int32_t *ret, struct error *e)
{
    return quantized(q, x, form, 0, ret, e);
}
