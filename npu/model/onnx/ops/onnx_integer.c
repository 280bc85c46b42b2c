// ConvInteger and MatMulInteger (8-bit x 8-bit -> int32, zero points subtracted) and
// DynamicQuantizeLinear (scale and zero point from the values' range, while running) of ONNX.
//
// With a constant weight both are an integer convolution, whose kernels take int8, and subtract
// what a zero point adds, which only a run knows:
//
//      x ----> SIGNED_BYTES, padded with x_zp ----> CONV ----> y = Σ x' * (w - w_zp) - x_zp' * Σ w
//      - w_zp
//
// where ' stands for 128 less if x is uint8. All else is done by reference operators.
#include "npu/model/onnx/onnx_lower.h"

static bool is_byte(const struct graph_tensor *t)
{
    return !t || t->type == TENSOR_INT8 || t->type == TENSOR_UINT8;
}

bool onnx_sums_fit(const struct onnx_lowering *l, uint32_t outputs)
{
    const struct graph_tensor *x = onnx_in(l, 0), *w = onnx_in(l, 1), *x_zp = onnx_in(l, 2),
                              *w_zp = onnx_in(l, 3);
    return is_byte(x) && is_byte(w) && is_byte(x_zp) && is_byte(w_zp) && !x->constant &&
           x->n_elems && w->constant && !w->unpack && w->n_elems && outputs &&
           (!x_zp || (x_zp->n_elems == 1 && x_zp->type == x->type)) &&
           (!w_zp || (w_zp->constant && w_zp->type == w->type &&
                      (w_zp->n_elems == 1 || w_zp->n_elems == outputs)));
}

// The image's zero point; of uint8 it is there also where the node leaves it out, since 0 is -128
// among the kernels' numbers.
static int32_t take_zero_point(struct onnx_lowering *l, int32_t x, struct error *e)
{
    static const uint8_t zero;
    if (l->n_in > 2 && l->in[2] >= 0)
        return l->in[2];
    enum tensor_type type = l->g->tensors[x].type;
    return onnx_constant(l, type, 0, (const uint32_t[1]){0}, &zero, e);
}

// x as int8, with the window's padding.
static int32_t emit_signed(struct onnx_lowering *l, int32_t x, int32_t zp, const uint32_t x_dims[4],
                           const struct graph_window *w, struct error *e)
{
    int32_t in[2] = {x, zp};
    uint32_t dims[4] = {x_dims[0], x_dims[1], x_dims[2] + w->pad[0] + w->pad[2],
                        x_dims[3] + w->pad[1] + w->pad[3]};
    int32_t y = onnx_temporary(l, TENSOR_INT8, 4, dims, e);
    struct graph_node *n = y < 0 ? NULL : onnx_emit(l, GRAPH_SIGNED_BYTES, in, 2, &y, 1, e);
    if (!n)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    n->lines[0] = w->pad[0];
    n->lines[1] = w->pad[1];
    return y;
}

// w - w_zp of the stored weights, which are 128 less where the file has uint8.
static struct graph_conv_quant *make_sums(struct onnx_lowering *l, bool is_unsigned, uint32_t n)
{
    struct pool *pool = &l->g->pool;
    struct graph_conv_quant *q = pool_alloc(pool, 1, sizeof *q);
    if (!q)
        return NULL;
    *q = (struct graph_conv_quant){.n = n,
                                   .sums = true,
                                   .scale = pool_alloc(pool, n, sizeof *q->scale),
                                   .bias = pool_alloc(pool, n, sizeof *q->bias),
                                   .nz = pool_alloc(pool, n, sizeof *q->nz)};
    if (!q->scale || !q->bias || !q->nz)
        return NULL;
    const struct graph_tensor *zp = onnx_in(l, 3);
    for (uint32_t o = 0; o < n; o++) {
        uint8_t stored = zp ? zp->data.data[zp->n_elems == 1 ? 0 : o] : 0;
        q->scale[o] = 1;
        q->bias[o] = 0;
        q->nz[o] = (int16_t)(is_unsigned ? 128 - stored : -(int8_t)stored);
    }
    return q;
}

int onnx_emit_sums(struct onnx_lowering *l, int32_t x, const uint32_t x_dims[4], int32_t weight,
                   bool transposed, const struct graph_window *window, int32_t y, struct error *e)
{
    const struct graph_tensor w = l->g->tensors[weight];
    int32_t copy = onnx_tensor_new(l, w.name, e);
    if (copy < 0)
        return copy;
    struct graph_tensor *t = &l->g->tensors[copy];
    *t = w;
    int r = onnx_int8_weight(&l->g->pool, &w, transposed, t, e);
    struct graph_conv_quant *q =
        r < 0 ? NULL : make_sums(l, w.type == TENSOR_UINT8, l->g->tensors[copy].dims[0]);
    if (!q)
        return r < 0 ? r : error_no_memory(e, "a weight", 0);
    int32_t zp = take_zero_point(l, x, e);
    int32_t in[4] = {zp < 0 ? zp : emit_signed(l, x, zp, x_dims, window, e), copy, -1, zp};
    struct graph_node *n = in[0] < 0 ? NULL : onnx_emit(l, GRAPH_CONV, in, 4, &y, 1, e);
    if (!n)
        return in[0] < 0 ? in[0] : STATUS_MALLOC_FAIL;
    n->window = *window;
    memset(n->window.pad, 0, sizeof n->window.pad);
    n->quant = q;
    return 0;
}

static const struct graph_window one_pixel = {
    .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};

// Lines of A are images of one pixel.
static int lower_product(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *a = onnx_in(l, 0), *b = onnx_in(l, 1);
    uint32_t inputs = b->dims[0], outputs = b->dims[1];
    uint32_t x_dims[4] = {(uint32_t)(a->n_elems / inputs), inputs, 1, 1},
             y_dims[4] = {x_dims[0], outputs, 1, 1};
    int32_t x = l->in[0];
    if (a->n_dims == 4) { // it is kept channels-last
        x = onnx_temporary(l, a->type, 4, x_dims, e);
        if (x < 0 || !onnx_emit(l, GRAPH_RESHAPE, &l->in[0], 1, &x, 1, e))
            return STATUS_MALLOC_FAIL;
    }
    int32_t y = onnx_temporary(l, TENSOR_INT32, 4, y_dims, e);
    int r = y < 0 ? y : onnx_emit_sums(l, x, x_dims, l->in[1], true, &one_pixel, y, e);
    if (r < 0)
        return r;
    return onnx_emit(l, GRAPH_RESHAPE, &y, 1, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

int onnx_lower_mat_mul_integer(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *a = onnx_in(l, 0), *b = onnx_in(l, 1);
    uint32_t dims[GRAPH_MAX_DIMS], n = a->n_dims;
    for (uint32_t i = 0; i < 4; i++)
        if (!is_byte(onnx_in(l, i)))
            return onnx_refuse(l, e, "it works on 8-bit numbers");
    if (n < 2 || (b->n_dims != 2 && b->n_dims != n) || a->dims[n - 1] != b->dims[b->n_dims - 2])
        return onnx_refuse(l, e, "its inputs do not fit together");
    for (uint32_t i = 0; i + 2 < n; i++)
        if (b->n_dims == n && a->dims[i] != b->dims[i])
            return onnx_refuse(l, e, "its inputs do not fit together");
    memcpy(dims, a->dims, sizeof dims);
    dims[n - 1] = b->dims[b->n_dims - 1];
    bool fast = b->n_dims == 2 && onnx_sums_fit(l, b->dims[1]);
    int r = onnx_shape(l, 0, TENSOR_INT32, n, dims, e);
    if (r == 0 && fast)
        return lower_product(l, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_MAT_MUL_INTEGER, 4, NULL, 0, e);
}

// Outputs: values, scale and zero point; the latter two are scalars.
int onnx_lower_dynamic_quantize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (x->type != TENSOR_FLOAT32 || !x->n_elems)
        return onnx_refuse(l, e, "it works on floats");
    int r = onnx_shape(l, 0, TENSOR_UINT8, x->n_dims, x->dims, e);
    if (r == 0)
        r = onnx_shape(l, 1, TENSOR_FLOAT32, 0, x->dims, e);
    if (r == 0)
        r = onnx_shape(l, 2, TENSOR_UINT8, 0, x->dims, e);
    if (r < 0)
        return r;
    return onnx_emit_own(l, GRAPH_DYNAMIC_QUANTIZE, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Each bit of x and 1 are unlike.
int onnx_lower_bitwise_not(struct onnx_lowering *l, struct error *e)
{
    static const int64_t kind = REF_XOR, ones = -1;
    const struct graph_tensor *x = onnx_in(l, 0);
    if (onnx_is_float(x->type) || x->type == TENSOR_BOOL)
        return onnx_refuse(l, e, "it works on integers");
    int r = onnx_shape_like(l, 0, x, e);
    l->in[1] = r < 0 ? r : onnx_constant(l, x->type, 0, (const uint32_t[1]){0}, &ones, e);
    l->n_in = 2;
    return l->in[1] < 0 ? l->in[1] : onnx_emit_ref(l, REF_OP_BINARY, 2, &kind, 1, e);
}
