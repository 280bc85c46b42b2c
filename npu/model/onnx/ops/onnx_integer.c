// MatMulInteger (int8 x int8 -> int32, zero points subtracted) and DynamicQuantizeLinear (scale and
// zero point from the values' range, while running) of ONNX. Both are reference operators.
#include "npu/model/onnx/onnx_lower.h"

static bool is_byte(const struct graph_tensor *t)
{
    return !t || t->type == TENSOR_INT8 || t->type == TENSOR_UINT8;
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
    int r = onnx_shape(l, 0, TENSOR_INT32, n, dims, e);
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
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_DYNAMIC_QUANTIZE, 1, NULL, 0, e);
}
