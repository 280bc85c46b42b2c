// QuantizeLinear and DequantizeLinear of ONNX.
#include "npu/sim/onnx_lower.h"

static int take_axis(const struct onnx_lowering *l, int64_t *ret, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    *ret = 0;
    if (onnx_in(l, 1)->n_elems == 1)
        return 0;
    return onnx_axis(l, onnx_int(l, "axis", 1), x->n_dims, ret, e);
}

static bool is_quantized(enum tensor_type type)
{
    return type == TENSOR_INT8 || type == TENSOR_UINT8 || type == TENSOR_INT16 ||
           type == TENSOR_UINT16;
}

int onnx_lower_quantize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *zp = onnx_in(l, 2);
    enum tensor_type type = zp ? zp->type : TENSOR_UINT8;
    int64_t axis;
    if (!is_quantized(type) || onnx_has_attr(l, "output_dtype") || onnx_has_attr(l, "block_size"))
        return onnx_refuse(l, e, "its type %s is not supported", tensor_type_name(type));
    int r = take_axis(l, &axis, e);
    if (r == 0)
        r = onnx_shape(l, 0, type, x->n_dims, x->dims, e);
    return r < 0 ? r : onnx_emit_wide(l, &wide_quantize, 3, &axis, 1, e);
}

static int note_origin(struct onnx_lowering *l, int64_t axis, struct error *e)
{
    if (l->n_origins == l->room_origins) {
        uint32_t room = l->room_origins ? 2 * l->room_origins : 64;
        struct onnx_origin *fresh = pool_alloc(&l->g->pool, room, sizeof *fresh);
        if (!fresh)
            return error_no_memory(e, "the graph", 0);
        if (l->n_origins)
            memcpy(fresh, l->origins, l->n_origins * sizeof *fresh);
        l->origins = fresh;
        l->room_origins = room;
    }
    l->origins[l->n_origins++] = (struct onnx_origin){.tensor = l->out[0],
                                                      .q = l->in[0],
                                                      .scale = l->in[1],
                                                      .zp = l->n_in > 2 ? l->in[2] : -1,
                                                      .axis = axis};
    return 0;
}

int onnx_lower_dequantize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t axis;
    if (!(is_quantized(x->type) || x->type == TENSOR_INT32) || onnx_has_attr(l, "block_size"))
        return onnx_refuse(l, e, "its type %s is not supported", tensor_type_name(x->type));
    int r = take_axis(l, &axis, e);
    if (r == 0)
        r = onnx_shape(l, 0, onnx_in(l, 1)->type, x->n_dims, x->dims, e);
    if (r == 0)
        r = note_origin(l, axis, e);
    return r < 0 ? r : onnx_emit_wide(l, &wide_dequantize, 3, &axis, 1, e);
}
