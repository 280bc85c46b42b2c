// Operators of ONNX that make numbers by rule: Range, EyeLike, OneHot.
#include <math.h>

#include "npu/model/onnx/onnx_lower.h"

#define MAX_RANGE (1 << 26)

// The three inputs (start, limit, step) as doubles; they are constants of one type.
static int range_inputs(const struct onnx_lowering *l, double v[3], struct error *e)
{
    for (uint32_t i = 0; i < 3; i++) {
        int64_t whole[ONNX_MAX_SHAPE];
        float real[ONNX_MAX_SHAPE];
        uint32_t n = 0;
        bool is_real = onnx_is_float(onnx_in(l, i)->type);
        int r = is_real ? onnx_in_floats(l, i, real, &n, e) : onnx_in_ints(l, i, whole, &n, e);
        if (r < 0)
            return r;
        if (n != 1 || onnx_in(l, i)->type != onnx_in(l, 0)->type)
            return onnx_refuse(l, e, "its inputs are not single numbers of one type");
        v[i] = is_real ? (double)real[0] : (double)whole[0];
    }
    return 0;
}

// max(ceil((limit - start) / step), 0) numbers. The comparisons refuse NaN as well.
int onnx_lower_range(struct onnx_lowering *l, struct error *e)
{
    double v[3];
    int r = range_inputs(l, v, e);
    if (r < 0)
        return r;
    double n = ceil((v[1] - v[0]) / v[2]);
    if (!(v[2] != 0) || !(n <= MAX_RANGE))
        return onnx_refuse(l, e, "a range of %g numbers", n);
    uint32_t dim = n > 0 ? (uint32_t)n : 0;
    r = onnx_shape(l, 0, onnx_in(l, 0)->type, 1, &dim, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_RANGE, 3, NULL, 0, e);
}

// A matrix with ones on the k-th diagonal, of the input's shape.
int onnx_lower_eye_like(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    enum tensor_type type = x->type;
    int64_t k = onnx_int(l, "k", 0), dtype = onnx_int(l, "dtype", 0);
    if (x->n_dims != 2)
        return onnx_refuse(l, e, "its input is no matrix");
    if (dtype && !onnx_type_of((int32_t)dtype, &type))
        return onnx_refuse(l, e, "element type %lld is not supported", (long long)dtype);
    int r = onnx_shape(l, 0, type, 2, x->dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_EYE, 1, &k, 1, e);
}

// The depth is a new dimension at the axis; as a float its fraction is cut off.
int onnx_lower_one_hot(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *values = onnx_in(l, 2);
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims, n_depth = 0;
    int64_t axis, depth[ONNX_MAX_SHAPE];
    float real[ONNX_MAX_SHAPE];
    bool is_real = onnx_is_float(onnx_in(l, 1)->type);
    int r = onnx_axis(l, onnx_int(l, "axis", -1), n + 1, &axis, e);
    if (r == 0)
        r = is_real ? onnx_in_floats(l, 1, real, &n_depth, e)
                    : onnx_in_ints(l, 1, depth, &n_depth, e);
    if (r < 0)
        return r;
    if (n_depth == 1 && is_real)
        depth[0] = real[0] >= 1 && real[0] < (float)MAX_RANGE ? (int64_t)real[0] : 0;
    if (n_depth != 1 || depth[0] < 1 || depth[0] > MAX_RANGE || n + 1 > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e,
                           "its depth is not a number above 0, or it has too many dimensions");
    for (uint32_t i = 0; i <= n; i++)
        dims[i] = i == axis ? (uint32_t)depth[0] : x->dims[i < axis ? i : i - 1];
    r = onnx_shape(l, 0, values->type, n + 1, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_ONE_HOT, 3, &axis, 1, e);
}
