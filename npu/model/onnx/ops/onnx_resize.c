// Resize, Upsample (its predecessor) and GridSample of ONNX. Before operator set 11 coordinates
// were asymmetric and rounded down; that is why defaults depend on the set. Only height and width
// of images can be resized.
#include <math.h>

#include "npu/model/onnx/onnx_lower.h"

// How an output pixel's position maps to the input.
static int take_coordinates(const struct onnx_lowering *l, struct graph_resize *z, struct error *e)
{
    static const struct {
        const char *name;
        enum graph_coordinates how;
    } known[] = {
        {"half_pixel", COORDINATES_HALF_PIXEL},
        {"pytorch_half_pixel", COORDINATES_PYTORCH_HALF_PIXEL},
        {"align_corners", COORDINATES_ALIGN_CORNERS},
        {"asymmetric", COORDINATES_ASYMMETRIC},
        {"tf_half_pixel_for_nn", COORDINATES_HALF_PIXEL_NN},
    };
    const char *otherwise = l->f->opset < 11 ? "asymmetric" : "half_pixel";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (onnx_text_is(l, "coordinate_transformation_mode", known[i].name, otherwise)) {
            z->coordinates = known[i].how;
            return 0;
        }
    return onnx_refuse(l, e, "its coordinate_transformation_mode is not supported");
}

// How a position between two pixels is rounded; the order of names is that of the enum.
static int take_nearest(const struct onnx_lowering *l, struct graph_resize *z, struct error *e)
{
    static const char *const names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const char *otherwise = l->f->opset < 11 ? "floor" : "round_prefer_floor";
    for (uint32_t i = 0; i < 4; i++)
        if (onnx_text_is(l, "nearest_mode", names[i], otherwise)) {
            z->nearest = i;
            return 0;
        }
    return onnx_refuse(l, e, "its nearest_mode is not known");
}

// All attributes but scales. Those that change the result and are not supported are refused.
static int take_mode(const struct onnx_lowering *l, struct graph_resize *z, struct error *e)
{
    z->cubic_a = onnx_float(l, "cubic_coeff_a", -0.75f);
    if (onnx_text_is(l, "mode", "nearest", "nearest"))
        z->mode = INTERPOLATE_NEAREST;
    else if (onnx_text_is(l, "mode", "linear", "nearest"))
        z->mode = INTERPOLATE_LINEAR;
    else if (onnx_text_is(l, "mode", "cubic", "nearest"))
        z->mode = INTERPOLATE_CUBIC;
    else
        return onnx_refuse(l, e, "its mode is not known");
    z->exclude_outside = onnx_int(l, "exclude_outside", 0);
    if (onnx_int(l, "antialias", 0) || onnx_has_attr(l, "axes") ||
        !onnx_text_is(l, "keep_aspect_ratio_policy", "stretch", "stretch"))
        return onnx_refuse(l, e,
                           "antialias, axes or keep_aspect_ratio_policy "
                           "is not supported");
    int r = take_coordinates(l, z, e);
    return r < 0 ? r : take_nearest(l, z, e);
}

// Where a scale gives no whole size, positions are computed from the scale.
static int scale_dims(const struct onnx_lowering *l, const float *scales, uint32_t n,
                      struct graph_resize *z, uint32_t *dims, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (n != x->n_dims)
        return onnx_refuse(l, e, "%u scales for %u dimensions", n, x->n_dims);
    for (uint32_t i = 0; i < n; i++) {
        double exact = (double)x->dims[i] * (double)scales[i], size = floor(exact);
        if (!(size >= 1 && size < 65536))
            return onnx_refuse(l, e, "a scale of %g is not possible", (double)scales[i]);
        if (exact != size && i >= 2 && i < 4)
            z->scale[i - 2] = scales[i];
        dims[i] = (uint32_t)size;
    }
    return 0;
}

// Sizes of all dimensions, input 3.
static int take_sizes(const struct onnx_lowering *l, uint32_t *dims, struct error *e)
{
    int64_t sizes[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_in_ints(l, 3, sizes, &n, e);
    if (r < 0)
        return r;
    if (n != onnx_in(l, 0)->n_dims)
        return onnx_refuse(l, e, "%u sizes for %u dimensions", n, onnx_in(l, 0)->n_dims);
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] < 1 || sizes[i] > 65535)
            return onnx_refuse(l, e, "a size of %lld is not possible", (long long)sizes[i]);
        dims[i] = (uint32_t)sizes[i];
    }
    return 0;
}

// Sizes if there are any, else scales: input 2 (input 1 before set 11) or an attribute (Upsample
// before set 9).
static int take_dims(const struct onnx_lowering *l, struct graph_resize *z, uint32_t *dims,
                     struct error *e)
{
    float scales[ONNX_MAX_SHAPE];
    uint32_t n, where = l->f->opset < 11 ? 1 : 2;
    if (onnx_in(l, 3))
        return take_sizes(l, dims, e);
    int r = onnx_in(l, where) ? onnx_in_floats(l, where, scales, &n, e)
                              : onnx_floats(l, "scales", scales, &n, e);
    return r < 0 ? r : scale_dims(l, scales, n, z, dims, e);
}

// Scales or sizes of batch and channels must be 1 or the input's own.
int onnx_lower_resize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    struct graph_resize z = {0};
    uint32_t dims[GRAPH_MAX_DIMS];
    int r = take_mode(l, &z, e);
    if (r == 0)
        r = take_dims(l, &z, dims, e);
    if (r != 0)
        return r;
    if (x->n_dims != 4 || dims[0] != x->dims[0] || dims[1] != x->dims[1] || !x->n_elems ||
        !onnx_is_float(x->type))
        return onnx_refuse(l, e, "only height and width of images of floats can be resized");
    r = onnx_shape(l, 0, x->type, 4, dims, e);
    struct graph_node *n = r < 0 ? NULL : onnx_emit_own(l, GRAPH_RESIZE, 1, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->resize = z;
    return 0;
}

// What a position outside of the image gives.
static int take_outside(const struct onnx_lowering *l, struct graph_node *n, struct error *e)
{
    if (onnx_text_is(l, "padding_mode", "zeros", "zeros"))
        n->grid.outside = GRID_ZEROS;
    else if (onnx_text_is(l, "padding_mode", "border", "zeros"))
        n->grid.outside = GRID_BORDER;
    else if (onnx_text_is(l, "padding_mode", "reflection", "zeros"))
        n->grid.outside = GRID_REFLECTION;
    else
        return onnx_refuse(l, e, "its padding_mode is not known");
    return 0;
}

// "bilinear" and "linear": before and since operator set 20.
int onnx_lower_grid_sample(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *grid = onnx_in(l, 1);
    bool nearest = onnx_text_is(l, "mode", "nearest", "bilinear");
    if (!nearest && !onnx_text_is(l, "mode", "bilinear", "bilinear") &&
        !onnx_text_is(l, "mode", "linear", "bilinear"))
        return onnx_refuse(l, e, "its mode is not supported");
    if (x->n_dims != 4 || grid->n_dims != 4 || grid->dims[3] != 2 || !x->n_elems ||
        grid->dims[0] != x->dims[0] || !onnx_is_float(x->type) || grid->type != x->type)
        return onnx_refuse(l, e, "it works on images of floats, by places in two dimensions");
    uint32_t dims[] = {x->dims[0], x->dims[1], grid->dims[1], grid->dims[2]};
    int r = onnx_shape(l, 0, x->type, 4, dims, e);
    struct graph_node *n = r < 0 ? NULL : onnx_emit_own(l, GRAPH_GRID_SAMPLE, 2, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->grid.nearest = nearest;
    n->grid.align_corners = onnx_int(l, "align_corners", 0);
    return take_outside(l, n, e);
}
