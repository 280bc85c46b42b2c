// AffineGrid and DeformConv of ONNX, by grids of positions.
#include "npu/model/onnx/onnx_maker.h"

// ---- AffineGrid ----

// Place i of n, from -1 to 1: of the first and last pixel's middle, or of their edges.
static float place(uint32_t i, uint32_t n, bool align)
{
    if (align)
        return n > 1 ? -1 + 2 * (float)i / (float)(n - 1) : 0;
    return (2 * (float)i + 1) / (float)n - 1;
}

// All positions with a 1 behind: x first. dims: of the image, the last ones of a line.
static const char *positions(struct onnx_maker *m, const int64_t *dims, uint32_t n, bool align)
{
    uint64_t pixels = 1;
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] < 1 || __builtin_mul_overflow(pixels, (uint64_t)dims[i], &pixels) ||
            pixels > UINT32_MAX / 4) {
            onnx_made_refuse(m, "its size is not possible");
            return "";
        }
    float *v = onnx_made_room(m, pixels * (n + 1), sizeof(float));
    for (uint64_t k = 0; v && k < pixels; k++) {
        uint64_t rest = k;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t size = (uint32_t)dims[n - 1 - i];
            v[k * (n + 1) + i] = place((uint32_t)(rest % size), size, align);
            rest /= size;
        }
        v[k * (n + 1) + n] = 1;
    }
    return onnx_step_floats(m, v, 2, (const uint32_t[]){(uint32_t)pixels, n + 1});
}

// AffineGrid(theta [batch, n, n + 1], size [batch, channels, ...]) -> [batch, ..., n]
int onnx_make_affine_grid(struct onnx_maker *m)
{
    const char *theta = onnx_made_input(m, 0), *size = onnx_made_input(m, 1);
    const struct graph_tensor *t = onnx_made_tensor(m, theta), *s = onnx_made_tensor(m, size);
    int64_t v[GRAPH_MAX_DIMS], dims[GRAPH_MAX_DIMS];
    uint32_t n = 0;
    onnx_made_allow(m, "align_corners", 2);
    if (!t || !s || !s->constant || graph_tensor_ints(s, v, 5, &n, NULL) < 0 ||
        (n != 4 && n != 5) || t->n_dims != 3 || t->dims[0] != v[0] || t->dims[1] != n - 2 ||
        t->dims[2] != n - 1 || t->type != TENSOR_FLOAT32) {
        onnx_made_refuse(m, "its size must be a constant that fits its matrices of floats");
        return m->r;
    }
    const uint32_t axes = n - 2;
    const char *at = positions(m, v + 2, axes, onnx_made_int(m, "align_corners", 0) != 0);
    const struct onnx_attr turn = {.name = "perm", .ints = {(int64_t[]){0, 2, 1}, 3, 0}};
    const char *turned = onnx_step(m, "Transpose", ONNX_IN(theta), NULL, &turn, 1);
    const char *y = onnx_step_two(m, "MatMul", at, turned, NULL);
    dims[0] = v[0];
    for (uint32_t i = 0; i < axes; i++)
        dims[1 + i] = v[2 + i];
    dims[1 + axes] = axes;
    onnx_step_reshaped(m, y, dims, axes + 2, onnx_made_output(m, 0));
    return m->r;
}

// ---- DeformConv ----

// y = W * x, where each number of the window lies `offset` beside its place: GridSample takes all
// of them out of x, and a product with W sums up.
struct deformed {
    int64_t batch, channels, outputs, groups, shared; // shared: groups of channels with own offsets
    int64_t kernel[2], out[2], stride[2], dilation[2], pad[2], size[2];
};

// n numbers of an attribute; where it is left out, each is `otherwise`.
static void take_pair(struct onnx_maker *m, const char *name, int64_t *v, uint32_t n,
                      int64_t otherwise)
{
    int64_t found[ONNX_MAX_SHAPE];
    uint32_t count;
    m->l->node = m->of;
    onnx_made_fail(m, onnx_ints(m->l, name, found, &count, m->e));
    if (m->r == 0 && count && count != n)
        onnx_made_refuse(m, "images of two dimensions are supported");
    for (uint32_t i = 0; i < n; i++) {
        v[i] = m->r == 0 && count ? found[i] : otherwise;
        if (v[i] < 0 || v[i] > 65535)
            onnx_made_refuse(m, "a number of its window is not possible");
    }
}

// The output's size is that of the offsets, and must follow from the window, too.
static bool take_deformed(struct onnx_maker *m, struct deformed *d)
{
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0)),
                              *w = onnx_made_tensor(m, onnx_made_input(m, 1)),
                              *offset = onnx_made_tensor(m, onnx_made_input(m, 2));
    int64_t pads[4], said[4];
    onnx_made_allow(m, "dilations group kernel_shape offset_group pads strides", 5);
    if (!x || !w || !offset || x->n_dims != 4 || w->n_dims != 4 || offset->n_dims != 4 ||
        x->type != TENSOR_FLOAT32 || w->type != x->type || offset->type != x->type) {
        onnx_made_refuse(m, "it works on images of float32");
        return false;
    }
    *d = (struct deformed){.batch = x->dims[0],
                           .channels = x->dims[1],
                           .outputs = w->dims[0],
                           .groups = onnx_made_int(m, "group", 1),
                           .shared = onnx_made_int(m, "offset_group", 1),
                           .kernel = {w->dims[2], w->dims[3]},
                           .out = {offset->dims[2], offset->dims[3]},
                           .size = {x->dims[2], x->dims[3]}};
    take_pair(m, "pads", pads, 4, 0);
    take_pair(m, "strides", d->stride, 2, 1);
    take_pair(m, "dilations", d->dilation, 2, 1);
    take_pair(m, "kernel_shape", said, 2, 0);
    bool fits = x->n_elems && w->n_elems && offset->n_elems && d->groups > 0 && d->shared > 0 &&
                d->channels % d->groups == 0 && d->outputs % d->groups == 0 &&
                d->channels % d->shared == 0 && w->dims[1] == d->channels / d->groups &&
                offset->dims[0] == d->batch &&
                offset->dims[1] == 2 * d->shared * d->kernel[0] * d->kernel[1];
    for (uint32_t i = 0; i < 2 && fits; i++) {
        d->pad[i] = pads[i];
        int64_t room = d->size[i] + pads[i] + pads[2 + i] - d->dilation[i] * (d->kernel[i] - 1) - 1;
        fits = room >= 0 && d->stride[i] > 0 && d->out[i] == room / d->stride[i] + 1 &&
               (!said[i] || said[i] == d->kernel[i]);
    }
    if (!fits)
        onnx_made_refuse(m, "its weight and offsets do not fit its image");
    return m->r == 0;
}

// Where the window's numbers lie along an axis without an offset, in GridSample's numbers: -1 and 1
// are the image's edges. [kernel, lines, columns]
static const char *bases(struct onnx_maker *m, const struct deformed *d, uint32_t axis)
{
    const uint64_t taps = (uint64_t)(d->kernel[0] * d->kernel[1]);
    const uint64_t pixels = (uint64_t)(d->out[0] * d->out[1]);
    float *v = onnx_made_room(m, taps * pixels, sizeof(float));
    for (uint64_t k = 0; v && k < taps * pixels; k++) {
        const int64_t tap = (int64_t)(k / pixels), pixel = (int64_t)(k % pixels);
        const int64_t at = axis ? tap % d->kernel[1] : tap / d->kernel[1];
        const int64_t out = axis ? pixel % d->out[1] : pixel / d->out[1];
        const int64_t place = out * d->stride[axis] - d->pad[axis] + at * d->dilation[axis];
        v[k] = (2 * (float)place + 1) / (float)d->size[axis] - 1;
    }
    return onnx_step_floats(
        m, v, 3, (const uint32_t[]){(uint32_t)taps, (uint32_t)d->out[0], (uint32_t)d->out[1]});
}

// Positions along an axis: [batch · shared, kernel · lines, columns, 1].
static const char *places_along(struct onnx_maker *m, const struct deformed *d, const char *offsets,
                                uint32_t axis)
{
    const int64_t taps = d->kernel[0] * d->kernel[1], n = d->batch * d->shared;
    const char *own = onnx_step_sliced(m, offsets, 2, axis, axis + 1, 1);
    own = onnx_step_reshaped(m, own, (const int64_t[]){n, taps, d->out[0], d->out[1]}, 4, NULL);
    const char *step = onnx_step_like(m, 2 / (float)d->size[axis], own);
    const char *at =
        onnx_step_two(m, "Add", onnx_step_two(m, "Mul", own, step, NULL), bases(m, d, axis), NULL);
    return onnx_step_reshaped(m, at, (const int64_t[]){n, taps * d->out[0], d->out[1], 1}, 4, NULL);
}

// DeformConv(x, weight, offsets [batch, shared · kernel · (y, x), ...], bias, mask)
int onnx_make_deform_conv(struct onnx_maker *m)
{
    struct deformed d;
    const char *bias = onnx_made_input(m, 3), *mask = onnx_made_input(m, 4);
    if (!take_deformed(m, &d))
        return m->r;
    const int64_t taps = d.kernel[0] * d.kernel[1], n = d.batch * d.shared,
                  pixels = d.out[0] * d.out[1], each = d.channels / d.groups * taps;
    const char *offsets = onnx_step_reshaped(
        m, onnx_made_input(m, 2), (const int64_t[]){n, taps, 2, d.out[0], d.out[1]}, 5, NULL);
    const char *grid = onnx_step_joined(m, places_along(m, &d, offsets, 1),
                                        places_along(m, &d, offsets, 0), 3, NULL);
    const char *x = onnx_step_reshaped(
        m, onnx_made_input(m, 0), (const int64_t[]){n, d.channels / d.shared, d.size[0], d.size[1]},
        4, NULL);
    x = onnx_step_two(m, "GridSample", x, grid, NULL);
    if (mask) {
        mask = onnx_step_reshaped(m, mask, (const int64_t[]){n, 1, taps * d.out[0], d.out[1]}, 4,
                                  NULL);
        x = onnx_step_two(m, "Mul", x, mask, NULL);
    }
    x = onnx_step_reshaped(m, x, (const int64_t[]){d.batch, d.groups, each, pixels}, 4, NULL);
    const char *w = onnx_step_reshaped(
        m, onnx_made_input(m, 1), (const int64_t[]){d.groups, d.outputs / d.groups, each}, 3, NULL);
    const char *y = onnx_step_two(m, "MatMul", w, x, NULL);
    y = onnx_step_reshaped(m, y, (const int64_t[]){d.batch, d.outputs, d.out[0], d.out[1]}, 4,
                           bias ? NULL : onnx_made_output(m, 0));
    if (bias)
        onnx_step_two(m, "Add", y,
                      onnx_step_reshaped(m, bias, (const int64_t[]){1, d.outputs, 1, 1}, 4, NULL),
                      onnx_made_output(m, 0));
    return m->r;
}
