// LayerNormalization, InstanceNormalization and LRN of ONNX: reference operators with epsilon and
// the like in reals[].
#include "npu/model/onnx/onnx_lower.h"

// A reference operator of all inputs, with one integer and n reals.
static int emit(struct onnx_lowering *l, enum graph_ref_op op, int64_t number, const float *reals,
                uint32_t n, struct error *e)
{
    int r = onnx_emit_ref(l, op, l->n_in, &number, 1, e);
    if (r == 0)
        memcpy(l->g->nodes[l->g->n_nodes - 1].ref.reals, reals, n * sizeof *reals);
    return r;
}

// Outputs 1 and 2 are mean and inverse deviation: the input's shape with 1 from the axis on.
int onnx_lower_layer_norm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    float epsilon = onnx_float(l, "epsilon", 1e-5f);
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims;
    int64_t axis;
    int r = onnx_axis(l, onnx_int(l, "axis", -1), n, &axis, e);
    if (r == 0)
        r = onnx_shape_like(l, 0, x, e);
    for (uint32_t i = 0; i < n; i++)
        dims[i] = i < axis ? x->dims[i] : 1;
    for (uint32_t i = 1; i < 3 && r == 0; i++)
        r = onnx_shape(l, i, TENSOR_FLOAT32, n, dims, e);
    return r < 0 ? r : emit(l, REF_OP_LAYER_NORM, axis, &epsilon, 1, e);
}

int onnx_lower_instance_norm(struct onnx_lowering *l, struct error *e)
{
    float epsilon = onnx_float(l, "epsilon", 1e-5f);
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    return r < 0 ? r : emit(l, REF_OP_INSTANCE_NORM, 0, &epsilon, 1, e);
}

int onnx_lower_lrn(struct onnx_lowering *l, struct error *e)
{
    float reals[3] = {onnx_float(l, "alpha", 1e-4f), onnx_float(l, "beta", 0.75f),
                      onnx_float(l, "bias", 1)};
    int64_t size = onnx_int(l, "size", 0);
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    if (r == 0 && (size < 1 || size > 65535))
        return onnx_refuse(l, e, "size %lld", (long long)size);
    return r < 0 ? r : emit(l, REF_OP_LRN, size, reals, 3, e);
}
