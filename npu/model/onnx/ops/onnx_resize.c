// Resize, Upsample (its predecessor) and GridSample of ONNX. Before operator set 11 coordinates
// were asymmetric and rounded down; that is why defaults depend on the set. Height and width of an
// image are resized at once, any other axes one after the other.
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
bool onnx_nearest_mode(const struct onnx_lowering *l, const char *otherwise,
                       enum graph_nearest_mode *ret)
{
    static const char *const names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    for (uint32_t i = 0; i < 4; i++)
        if (onnx_text_is(l, "nearest_mode", names[i], otherwise)) {
            *ret = i;
            return true;
        }
    return false;
}

static int take_nearest(const struct onnx_lowering *l, struct graph_resize *z, struct error *e)
{
    const char *otherwise = l->f->opset < 11 ? "floor" : "round_prefer_floor";
    return onnx_nearest_mode(l, otherwise, &z->nearest)
               ? 0
               : onnx_refuse(l, e, "its nearest_mode is not known");
}

// Before operator set 11 an axis that shrinks takes the pixel behind the position, as ONNX's cases
// of these sets and ONNX Runtime have it.
static enum graph_nearest_mode nearest_of(const struct onnx_lowering *l,
                                          const struct graph_resize *z, uint32_t from, uint32_t to)
{
    return l->f->opset < 11 && to < from ? NEAREST_CEIL : z->nearest;
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
    if (onnx_int(l, "antialias", 0))
        return onnx_refuse(l, e, "antialias is not supported");
    int r = take_coordinates(l, z, e);
    return r < 0 ? r : take_nearest(l, z, e);
}

// What becomes of each dimension. Where a scale gives no whole size, positions are computed from
// the scale; else it is 0.
struct sizes {
    uint32_t dims[GRAPH_MAX_DIMS];
    float scale[GRAPH_MAX_DIMS];
};

// The nearest of two pixels is that of ONNX Runtime, whose positions are floats, where a fraction
// might choose the other one.
static void keep_floats(const struct onnx_lowering *l, const struct graph_resize *z,
                        struct sizes *to)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (z->mode != INTERPOLATE_NEAREST || z->coordinates == COORDINATES_ALIGN_CORNERS)
        return;
    for (uint32_t i = 0; i < x->n_dims && x->n_elems; i++)
        if (to->scale[i] == 0 && to->dims[i] % x->dims[i] && x->dims[i] % to->dims[i])
            to->scale[i] = (float)to->dims[i] / (float)x->dims[i];
}

// The dimensions that sizes and scales are of, in their order: all, or those that `axes` lists.
static int take_axes(const struct onnx_lowering *l, int64_t *axes, uint32_t *ret_n, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int r = onnx_ints(l, "axes", axes, ret_n, e);
    for (uint32_t i = 0; i < *ret_n && r == 0; i++) {
        r = onnx_axis(l, axes[i], x->n_dims, &axes[i], e);
        for (uint32_t k = 0; k < i && r == 0; k++)
            if (axes[k] == axes[i])
                return onnx_refuse(l, e, "axis %lld is there twice", (long long)axes[i]);
    }
    if (r < 0 || onnx_has_attr(l, "axes"))
        return r;
    for (uint32_t i = 0; i < x->n_dims; i++)
        axes[i] = i;
    *ret_n = x->n_dims;
    return 0;
}

static int scale_dims(const struct onnx_lowering *l, const float *scales, const int64_t *axes,
                      uint32_t n, struct sizes *z, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        // In float, as the exporters' and ONNX's own size of it: 20 pixels by 0.7f are 14.
        float exact = (float)onnx_in(l, 0)->dims[axes[i]] * scales[i], size = floorf(exact);
        if (!(size >= 1 && size < 65536))
            return onnx_refuse(l, e, "a scale of %g is not possible", (double)scales[i]);
        z->scale[axes[i]] = exact != size ? scales[i] : 0;
        z->dims[axes[i]] = (uint32_t)size;
    }
    return 0;
}

// With a policy sizes are a frame that the image fits into, or covers, with its aspect ratio.
static int keep_ratio(const struct onnx_lowering *l, const int64_t *axes, uint32_t n,
                      const int64_t *sizes, struct sizes *z, struct error *e)
{
    const uint32_t *in = onnx_in(l, 0)->dims;
    bool covers = onnx_text_is(l, "keep_aspect_ratio_policy", "not_smaller", "stretch");
    if (!covers && !onnx_text_is(l, "keep_aspect_ratio_policy", "not_larger", "stretch"))
        return onnx_refuse(l, e, "its keep_aspect_ratio_policy is not known");
    float scale = 0;
    for (uint32_t i = 0; i < n; i++) {
        float s = (float)sizes[i] / (float)in[axes[i]];
        if (i == 0 || (covers ? s > scale : s < scale))
            scale = s;
    }
    for (uint32_t i = 0; i < n; i++) {
        float size = roundf(scale * (float)in[axes[i]]);
        if (!(size >= 1 && size < 65536))
            return onnx_refuse(l, e, "a size of %g is not possible", (double)size);
        z->dims[axes[i]] = (uint32_t)size;
        z->scale[axes[i]] = scale;
    }
    return 0;
}

// Sizes, input 3.
static int take_sizes(const struct onnx_lowering *l, const int64_t *axes, uint32_t n_axes,
                      struct sizes *z, struct error *e)
{
    int64_t sizes[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_in_ints(l, 3, sizes, &n, e);
    if (r < 0)
        return r;
    if (n != n_axes)
        return onnx_refuse(l, e, "%u sizes for %u dimensions", n, n_axes);
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] < 1 || sizes[i] > 65535)
            return onnx_refuse(l, e, "a size of %lld is not possible", (long long)sizes[i]);
        z->dims[axes[i]] = (uint32_t)sizes[i];
    }
    return onnx_text_is(l, "keep_aspect_ratio_policy", "stretch", "stretch")
               ? 0
               : keep_ratio(l, axes, n, sizes, z, e);
}

// Sizes if there are any, else scales: input 2 (input 1 before set 11) or an attribute (Upsample
// before set 9).
static int take_dims(const struct onnx_lowering *l, struct sizes *z, struct error *e)
{
    float scales[ONNX_MAX_SHAPE];
    int64_t axes[ONNX_MAX_SHAPE];
    uint32_t n, n_axes, where = l->f->opset < 11 ? 1 : 2;
    memcpy(z->dims, onnx_in(l, 0)->dims, sizeof z->dims);
    if (onnx_in(l, 3) && onnx_in(l, 2) && onnx_in(l, 2)->n_elems)
        return onnx_refuse(l, e, "it has both scales and sizes, of which one counts");
    int r = take_axes(l, axes, &n_axes, e);
    if (r < 0 || onnx_in(l, 3))
        return r < 0 ? r : take_sizes(l, axes, n_axes, z, e);
    r = onnx_in(l, where) ? onnx_in_floats(l, where, scales, &n, e)
                          : onnx_floats(l, "scales", scales, &n, e);
    if (r == 0 && n != n_axes)
        return onnx_refuse(l, e, "%u scales for %u dimensions", n, n_axes);
    return r < 0 ? r : scale_dims(l, scales, axes, n, z, e);
}

static int emit_resize(struct onnx_lowering *l, int32_t x, int32_t y, const struct graph_resize *z,
                       struct error *e)
{
    struct graph_node *n = onnx_emit(l, GRAPH_RESIZE, &x, 1, &y, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->resize = *z;
    return 0;
}

// The axis of a tensor of any dimensions: what is before it are the channels of an image, what is
// behind it are its columns. Returns the tensor with that axis resized.
static int32_t resize_axis(struct onnx_lowering *l, int32_t x, uint32_t axis,
                           const struct graph_resize *how, const struct sizes *to, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[x];
    uint32_t n = t->n_dims, dims[GRAPH_MAX_DIMS], image[4] = {1, 1, t->dims[axis], 1};
    struct graph_resize z = *how;
    z.nearest = nearest_of(l, how, t->dims[axis], to->dims[axis]);
    memcpy(dims, t->dims, sizeof dims);
    for (uint32_t i = 0; i < n; i++)
        if (i != axis)
            image[i < axis ? 1 : 3] *= dims[i];
    x = onnx_reshaped(l, x, 4, image, e);
    dims[axis] = image[2] = to->dims[axis];
    z.scale[0] = to->scale[axis];
    int32_t y = x < 0 ? x : onnx_temporary(l, l->g->tensors[x].type, 4, image, e);
    if (y < 0 || emit_resize(l, x, y, &z, e) < 0)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    return onnx_reshaped(l, y, n, dims, e);
}

static int resize_axes(struct onnx_lowering *l, const struct graph_resize *how,
                       const struct sizes *to, struct error *e)
{
    int32_t x = l->in[0];
    uint32_t n = onnx_in(l, 0)->n_dims;
    if (how->mode == INTERPOLATE_CUBIC)
        return onnx_refuse(l, e, "cubic, only height and width of images can be resized");
    for (uint32_t i = 0; i < n && x >= 0; i++)
        if (l->g->tensors[x].dims[i] != to->dims[i] || to->scale[i] != 0)
            x = resize_axis(l, x, i, how, to, e);
    return x < 0 ? x : onnx_same(l, x, e);
}

int onnx_lower_resize(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    struct graph_resize z = {0};
    struct sizes to = {0};
    int r = take_mode(l, &z, e);
    if (r == 0)
        r = take_dims(l, &to, e);
    if (r < 0)
        return r;
    if (!x->n_elems || !onnx_is_float(x->type))
        return onnx_refuse(l, e, "it works on floats, and its input is of others, or empty");
    keep_floats(l, &z, &to);
    r = onnx_shape(l, 0, x->type, x->n_dims, to.dims, e);
    if (r < 0)
        return r;
    x = onnx_in(l, 0);
    bool images = x->n_dims == 4 && to.dims[0] == x->dims[0] && to.dims[1] == x->dims[1];
    if (!images || to.scale[0] != 0 || to.scale[1] != 0 ||
        (z.mode == INTERPOLATE_NEAREST &&
         nearest_of(l, &z, x->dims[2], to.dims[2]) != nearest_of(l, &z, x->dims[3], to.dims[3])))
        return resize_axes(l, &z, &to, e);
    z.nearest = nearest_of(l, &z, x->dims[2], to.dims[2]);
    memcpy(z.scale, to.scale + 2, sizeof z.scale);
    return emit_resize(l, l->in[0], l->out[0], &z, e);
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

// "bilinear" and "linear", "bicubic" and "cubic": before and since operator set 20.
int onnx_lower_grid_sample(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *grid = onnx_in(l, 1);
    bool nearest = onnx_text_is(l, "mode", "nearest", "bilinear");
    bool cubic = onnx_text_is(l, "mode", "cubic", "bilinear") ||
                 onnx_text_is(l, "mode", "bicubic", "bilinear");
    if (!nearest && !cubic && !onnx_text_is(l, "mode", "bilinear", "bilinear") &&
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
    n->grid.cubic = cubic;
    n->grid.align_corners = onnx_int(l, "align_corners", 0);
    return take_outside(l, n, e);
}
