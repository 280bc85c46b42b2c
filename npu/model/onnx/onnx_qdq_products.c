// Convolutions and products of matrices on int8 tensors. With x8, w8 and their zero points:
//
//      y8 = s_x * s_w[o] / s_y * (sum((x8 - zp_x) * (w8 - zp_w[o])) + bias[o]) + zp_y
//
// where the bias is in units of s_x * s_w[o]. A product of matrices [rows, inputs] x [inputs,
// outputs] is a convolution of `rows` images of one pixel with `inputs` channels, so one kernel
// serves both.
#include "npu/model/onnx/onnx_qdq.h"

// What a product is made of. The weight has one scale and zero point, or one for each output.
struct operands {
    int32_t x; // int8
    uint32_t outputs;
    const struct onnx_origin *origin;
    const struct graph_tensor *weight, *scale, *zp, *bias; // zp, bias: NULL without
};

// The bias must be int32 in units of both scales, without zero point, as ONNX Runtime demands.
// False: it is not.
static bool take_bias(const struct qdq *q, const struct graph_node *n, struct operands *o)
{
    o->bias = NULL;
    if (n->n_inputs < 3 || n->inputs[2] < 0)
        return true;
    const struct onnx_origin *b = qdq_origin(q, n->inputs[2]);
    if (!b)
        return false;
    o->bias = &q->g->tensors[b->q];
    const struct graph_tensor *zp = b->zp < 0 ? NULL : &q->g->tensors[b->zp];
    return o->bias->type == TENSOR_INT32 && o->bias->n_elems == o->outputs &&
           qdq_is_known(o->bias) && (!zp || (qdq_is_known(zp) && qdq_whole_number(zp, 0) == 0));
}

// Finds the operands of a product; false: one is not quantized as it must be. `axis`: of the
// weight's outputs.
static bool take_operands(const struct qdq *q, const struct graph_node *n, uint32_t n_dims,
                          uint32_t axis, struct operands *o)
{
    const struct graph *g = q->g;
    *o = (struct operands){.x = q->source[n->inputs[0]], .origin = qdq_origin(q, n->inputs[1])};
    if (o->x < 0 || !o->origin)
        return false;
    o->weight = &g->tensors[o->origin->q];
    o->scale = &g->tensors[o->origin->scale];
    o->zp = o->origin->zp < 0 ? NULL : &g->tensors[o->origin->zp];
    if ((o->weight->type != TENSOR_INT8 && o->weight->type != TENSOR_UINT8) ||
        o->weight->n_dims != n_dims || !qdq_is_known(o->weight))
        return false;
    o->outputs = o->weight->dims[axis];
    uint64_t n_scales = o->scale->n_elems;
    return o->scale->constant && o->scale->type == TENSOR_FLOAT32 &&
           (n_scales == 1 || (n_scales == o->outputs && o->origin->axis == axis)) &&
           (!o->zp || (qdq_is_known(o->zp) && o->zp->n_elems == n_scales)) && take_bias(q, n, o);
}

// Scales as ONNX Runtime computes them, in floats and in this order: quantized units of the output
// for each product of units, or real numbers where y_scale is 0. uint8 weights are shifted by 128,
// as is their zero point.
static struct graph_conv_quant *make_quant(struct qdq *q, const struct operands *o, float y_scale,
                                           struct error *e)
{
    struct pool *pool = &q->g->pool;
    uint32_t n = o->outputs;
    float x_scale = q->g->tensors[o->x].scale;
    float *scales = pool_alloc(pool, o->scale->n_elems, sizeof *scales);
    struct graph_conv_quant *quant = pool_alloc(pool, 1, sizeof *quant);
    if (quant)
        *quant = (struct graph_conv_quant){.n = n,
                                           .in_output_units = y_scale > 0,
                                           .scale = pool_alloc(pool, n, sizeof *quant->scale),
                                           .bias = pool_alloc(pool, n, sizeof *quant->bias),
                                           .nz = pool_alloc(pool, n, sizeof *quant->nz)};
    if (!scales || !quant || !quant->scale || !quant->bias || !quant->nz) {
        error_no_memory(e, "a product", n);
        return NULL;
    }
    graph_tensor_floats(o->scale, scales);
    for (uint32_t c = 0; c < n; c++) {
        uint32_t k = o->scale->n_elems == 1 ? 0 : c;
        int64_t zp = o->zp ? qdq_whole_number(o->zp, k) : 0;
        float scale = x_scale * scales[k];
        quant->scale[c] = y_scale > 0 ? scale / y_scale : scale;
        quant->bias[c] = o->bias ? (int32_t)qdq_whole_number(o->bias, c) : 0;
        quant->nz[c] = (int16_t)(o->weight->type == TENSOR_UINT8 ? 128 - zp : -zp);
    }
    return quant;
}

// A weight as the file has it: perhaps of unsigned numbers, perhaps outputs innermost.
struct file_weight {
    const uint8_t *data;
    bool is_unsigned, transposed;
};

#define TILE 64 // outputs that are transposed together: a line of the cache of each input

// Shifts and transposes a weight in one pass. By tiles, since the source's lines are `n` bytes
// apart and each is read as a whole cache line.
static void unpack(const struct graph_tensor *t, void *dst)
{
    const struct file_weight *w = t->packing;
    uint8_t *to = dst, moved = w->is_unsigned ? 0x80 : 0;
    size_t n = t->dims[0], k = t->n_elems / n;
    if (!w->transposed)
        for (size_t i = 0; i < t->n_elems; i++)
            to[i] = w->data[i] ^ moved;
    for (size_t tile = 0; w->transposed && tile < n; tile += TILE)
        for (size_t i = 0; i < k; i++)
            for (size_t o = tile; o < n && o < tile + TILE; o++)
                to[o * k + i] = w->data[i * n + o] ^ moved;
}

int onnx_int8_weight(struct pool *pool, const struct graph_tensor *w, bool transposed,
                     struct graph_tensor *t, struct error *e)
{
    t->type = TENSOR_INT8;
    t->constant = true;
    t->channels_last = t->quantized = t->rounds_before_zp = false;
    if (w->n_dims == 2) {
        uint32_t outputs = w->dims[transposed];
        t->n_dims = 4;
        t->dims[0] = outputs;
        t->dims[1] = (uint32_t)(w->n_elems / (outputs ? outputs : 1));
        t->dims[2] = t->dims[3] = 1;
    }
    if (w->type == TENSOR_INT8 && !transposed)
        return 0;
    struct file_weight *packing = pool_alloc(pool, 1, sizeof *packing);
    if (!packing)
        return error_no_memory(e, "a weight", sizeof *packing);
    *packing = (struct file_weight){w->data.data, w->type == TENSOR_UINT8, transposed};
    t->unpack = unpack;
    t->packing = packing;
    return 0;
}

// The weight as signed numbers in the order outputs, inputs, window. Negative: an error.
static int32_t take_weight(struct qdq *q, const struct operands *o, bool transposed,
                           struct error *e)
{
    int32_t index = qdq_int8(q, o->origin->q, (struct qdq_form){.scale = 1}, e);
    int r = index < 0 ? index
                      : onnx_int8_weight(&q->g->pool, &q->g->tensors[o->origin->q], transposed,
                                         &q->g->tensors[index], e);
    return r < 0 ? r : index;
}

// 1: emitted. A product's weight [inputs, outputs] is transposed unless the node says it already
// is.
static int emit_conv(struct qdq *q, const struct graph_node *n, const struct operands *o, int32_t x,
                     int32_t y, struct error *e)
{
    bool conv = n->op == GRAPH_CONV;
    const struct graph_tensor *t = &q->g->tensors[y];
    struct graph_conv_quant *quant = make_quant(q, o, t->quantized ? t->scale : 0, e);
    int32_t edges[2] = {x, 0};
    edges[1] = quant ? take_weight(q, o, !conv && !n->product.transpose[1], e) : STATUS_MALLOC_FAIL;
    if (edges[1] < 0)
        return edges[1];
    struct graph_node *fresh = qdq_emit(q, GRAPH_CONV, n, edges, 2, &y, 1, e);
    if (!fresh)
        return STATUS_MALLOC_FAIL;
    fresh->quant = quant;
    fresh->window = conv ? n->window
                         : (struct graph_window){
                               .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    return 1;
}

// ---- products of matrices ----

// A plain product whose B is a quantized weight and whose A ends with the summed dimension.
static bool take_matrices(const struct qdq *q, const struct graph_node *n, struct operands *o)
{
    if (n->product.transpose[0] || n->product.alpha != 1 || n->product.beta != 1 ||
        !take_operands(q, n, 2, n->product.transpose[1] ? 0 : 1, o))
        return false;
    const struct graph_tensor *x = &q->g->tensors[o->x];
    uint64_t inputs = o->outputs ? o->weight->n_elems / o->outputs : 0;
    return inputs && x->n_elems && x->n_dims && x->dims[x->n_dims - 1] == inputs;
}

// The rows of a new tensor as images of one pixel, channels-last: the bytes stay in place.
static int as_pixels(struct qdq *q, int32_t tensor, uint32_t channels, struct error *e)
{
    struct graph_tensor *t = &q->g->tensors[tensor];
    uint32_t rows = (uint32_t)(t->n_elems / channels);
    t->n_dims = 4;
    t->dims[0] = rows;
    t->dims[1] = channels;
    t->dims[2] = t->dims[3] = 1;
    t->channels_last = true;
    return graph_tensor_measure(t, e);
}

// Reshape, convolution, Reshape; the reshapes move nothing.
static int emit_product(struct qdq *q, const struct graph_node *n, const struct operands *o,
                        int32_t y, struct error *e)
{
    const struct graph_tensor *t = &q->g->tensors[y];
    struct qdq_form form = qdq_form_of(q, y);
    bool real = !t->quantized;
    uint32_t inputs = (uint32_t)(o->weight->n_elems / o->outputs);
    int32_t x = qdq_int8(q, o->x, qdq_form_of(q, o->x), e), out = qdq_int8(q, y, form, e);
    if (x < 0 || out < 0)
        return STATUS_MALLOC_FAIL;
    if (real) {
        q->g->tensors[out].type = TENSOR_FLOAT32;
        q->g->tensors[out].quantized = q->g->tensors[out].rounds_before_zp = false;
    }
    if (as_pixels(q, x, inputs, e) < 0 || as_pixels(q, out, o->outputs, e) < 0)
        return STATUS_MODEL_INVALID;
    if (!qdq_emit(q, GRAPH_RESHAPE, n, &o->x, 1, &x, 1, e))
        return STATUS_MALLOC_FAIL;
    int r = emit_conv(q, n, o, x, out, e);
    if (r < 0)
        return r;
    return qdq_emit(q, GRAPH_RESHAPE, n, &out, 1, &y, 1, e) ? 1 : STATUS_MALLOC_FAIL;
}

int qdq_product(struct qdq *q, const struct graph_node *n, int32_t like, struct qdq_form form,
                int32_t *ret, struct error *e)
{
    struct operands o;
    bool conv = n->op == GRAPH_CONV;
    if (n->n_post || !(conv ? take_operands(q, n, 4, 0, &o) : take_matrices(q, n, &o)))
        return 0;
    *ret = qdq_int8(q, like, form, e);
    if (*ret < 0)
        return *ret;
    return conv ? emit_conv(q, n, &o, o.x, *ret, e) : emit_product(q, n, &o, *ret, e);
}

int qdq_real_product(struct qdq *q, const struct graph_node *n, struct error *e)
{
    struct operands o;
    if (n->n_post || !take_matrices(q, n, &o))
        return 0;
    return emit_product(q, n, &o, n->outputs[0], e);
}
