// RoiAlign and MaxUnpool of ONNX.
#include "npu/model/onnx/onnx_lower.h"

// Of which kind the largest of a bin would be, of samples or of their weighted parts, the standard
// and ONNX Runtime do not agree in: refused. Up to set 15 there is one coordinate mode.
int onnx_lower_roi_align(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *rois = onnx_in(l, 1), *which = onnx_in(l, 2);
    const char *mode = "coordinate_transformation_mode";
    const char *absent = l->f->opset < 16 ? "output_half_pixel" : "half_pixel";
    bool half = onnx_text_is(l, mode, "half_pixel", absent);
    int64_t ints[2] = {onnx_int(l, "sampling_ratio", 0), half};
    int64_t h = onnx_int(l, "output_height", 1), w = onnx_int(l, "output_width", 1);
    float scale = onnx_float(l, "spatial_scale", 1);
    if (!half && !onnx_text_is(l, mode, "output_half_pixel", absent))
        return onnx_refuse(l, e, "its %s is not supported", mode);
    if (!onnx_text_is(l, "mode", "avg", "avg"))
        return onnx_refuse(l, e, "its mode is not supported, avg is");
    if (x->n_dims != 4 || rois->n_dims != 2 || rois->dims[1] != 4 || which->n_dims != 1 ||
        which->dims[0] != rois->dims[0] || !onnx_is_float(x->type) || !onnx_is_float(rois->type) ||
        onnx_is_float(which->type))
        return onnx_refuse(l, e, "its inputs do not fit together");
    if (h < 1 || h > UINT16_MAX || w < 1 || w > UINT16_MAX || ints[0] < 0 || ints[0] > UINT8_MAX)
        return onnx_refuse(l, e, "it has no valid sizes");
    const uint32_t dims[4] = {rois->dims[0], x->dims[1], (uint32_t)h, (uint32_t)w};
    int r = onnx_shape(l, 0, x->type, 4, dims, e);
    if (r == 0)
        r = onnx_emit_ref(l, REF_OP_ROI_ALIGN, 3, ints, 2, e);
    if (r == 0)
        l->g->nodes[l->g->n_nodes - 1].ref.reals[0] = scale;
    return r;
}

// A list of the node, or `otherwise` for each dimension of the image.
static int take_list(struct onnx_lowering *l, const char *name, uint32_t n, int64_t otherwise,
                     int64_t *ret, struct error *e)
{
    uint32_t there;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = otherwise;
    int r = onnx_ints(l, name, ret, &there, e);
    if (r == 0 && there != n && onnx_has_attr(l, name))
        return onnx_refuse(l, e, "its %s does not fit its input", name);
    for (uint32_t i = 0; i < n && r == 0; i++)
        if (ret[i] < otherwise || ret[i] > UINT16_MAX)
            return onnx_refuse(l, e, "its %s is not supported", name);
    return r;
}

// The places count in the image that the sizes lead to; a larger one, of input 2, has zeros behind.
int onnx_lower_max_unpool(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *places = onnx_in(l, 1);
    int64_t kernel[ONNX_MAX_SHAPE] = {0}, stride[ONNX_MAX_SHAPE] = {0}, pads[ONNX_MAX_SHAPE] = {0};
    int64_t wanted[ONNX_MAX_SHAPE], ints[GRAPH_MAX_DIMS];
    uint32_t dims[GRAPH_MAX_DIMS], n = 0, image = x->n_dims - 2;
    if (x->n_dims < 3 || places->n_elems != x->n_elems || places->type != TENSOR_INT64 ||
        !onnx_is_float(x->type))
        return onnx_refuse(l, e, "its inputs do not fit together");
    int r = take_list(l, "kernel_shape", image, 1, kernel, e);
    if (r == 0)
        r = take_list(l, "strides", image, 1, stride, e);
    if (r == 0)
        r = take_list(l, "pads", 2 * image, 0, pads, e);
    if (r == 0)
        r = onnx_in_ints(l, 2, wanted, &n, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < x->n_dims; i++) {
        int64_t k = (int64_t)i - 2;
        ints[i] =
            k < 0 ? x->dims[i]
                  : ((int64_t)x->dims[i] - 1) * stride[k] + kernel[k] - pads[k] - pads[k + image];
        int64_t size = n ? wanted[i] : ints[i];
        if ((n && n != x->n_dims) || ints[i] < 0 || size < ints[i] || size > UINT32_MAX)
            return onnx_refuse(l, e, "its sizes lead to no output");
        dims[i] = (uint32_t)size;
    }
    n = x->n_dims;
    r = onnx_shape(l, 0, x->type, n, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_MAX_UNPOOL, 2, ints, n, e);
}
