// Operators of .rknn files that sample images: Resize, GridSample.
#include "npu/model/rknn/lower/rknn_lower.h"

#define ROUNDED 1e-3 // of a size that is a float

// A Resize with scales computes positions from them, and its size is rounded down: where that cuts
// off a part of a pixel, the scale is kept. Where sizes are given (input 3), they count.
static int take_scales(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    const struct graph_tensor *t = lower_input(l, 2);
    float scales[4];
    if (lower_input(l, 3) || !t || !t->constant || t->unpack || t->n_elems != 4 || x->n_dims != 4 ||
        y->n_dims != 4)
        return 0;
    graph_tensor_floats(t, scales);
    for (int i = 0; i < 2; i++) {
        double exact = (double)scales[2 + i] * x->dims[2 + i], rest = exact - y->dims[2 + i];
        if (!(rest > -ROUNDED && rest < 1))
            return lower_refuse(l, e, "its scales do not give its output in dimension %d", 2 + i);
        l->out->resize.scale[i] = rest < ROUNDED ? 0 : scales[2 + i];
    }
    return 0;
}

// The defaults of the attributes are ONNX's.
int lower_resize(struct rknn_lowering *l, struct error *e)
{
    static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                              "asymmetric"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    uint32_t c, m, r;
    if (lower_pick(l, "coordinate_transformation_mode", "half_pixel", coordinates, 4, &c, e) < 0 ||
        lower_pick(l, "mode", "nearest", modes, 3, &m, e) < 0 ||
        lower_pick(l, "nearest_mode", c == COORDINATES_ASYMMETRIC ? "floor" : "round_prefer_floor",
                   nearest, 4, &r, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->resize =
        (struct graph_resize){.mode = m,
                              .coordinates = c,
                              .nearest = r,
                              .cubic_a = (float)rknn_attr_float(l->node, "cubic_coeff_a", -0.75),
                              .exclude_outside = rknn_attr_int(l->node, "exclude_outside", 0) != 0};
    return take_scales(l, e);
}

// Inputs: image and grid [N, H, W, 2] of positions from -1 to 1.
int lower_grid_sample(struct rknn_lowering *l, struct error *e)
{
    static const char *const modes[] = {"bilinear", "nearest"};
    static const char *const outside[] = {"zeros", "border", "reflection"};
    uint32_t m, o;
    if (lower_pick(l, "mode", "bilinear", modes, 2, &m, e) < 0 ||
        lower_pick(l, "padding_mode", "zeros", outside, 3, &o, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->grid.align_corners = rknn_attr_int(l->node, "align_corners", 0) != 0;
    l->out->grid.nearest = m == 1;
    l->out->grid.outside = o;
    return 0;
}
