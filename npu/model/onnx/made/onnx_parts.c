// LpPool, Col2Im and CenterCropPad, as convolutions and copies.
//
//   LpPool           (Σ |x|^p)^(1/p) over a window: a convolution of |x|^p with ones, a channel at
//                    a time, so that padding counts as zeros
//   GlobalLpPool     the same over whole images
//   Col2Im           the sum of blocks that overlap: a transposed convolution whose weight k puts
//                    element k of a block where it belongs
//   CenterCropPad    per axis the middle of it, or zeros on both sides
#include "npu/model/onnx/onnx_maker.h"

#define MAX_ATTRS 8

// ---- LpPool ----

// |x|^p, or with `inverse` the p-th root of what is positive.
static const char *step_power(struct onnx_maker *m, const char *x, int64_t p, bool inverse,
                              const char *out)
{
    if (!inverse)
        x = onnx_step_one(m, "Abs", x, NULL);
    if (p == 1)
        return out ? onnx_step_one(m, "Identity", x, out) : x;
    if (p == 2)
        return inverse ? onnx_step_one(m, "Sqrt", x, out) : onnx_step_two(m, "Mul", x, x, out);
    const float exponent = inverse ? 1 / (float)p : (float)p;
    return onnx_step_two(m, "Pow", x, onnx_step_like(m, exponent, x), out);
}

static int64_t take_power(struct onnx_maker *m)
{
    int64_t p = onnx_made_int(m, "p", 2);
    if (p < 1 || p > 1024)
        onnx_made_refuse(m, "its p is not supported");
    return p;
}

// The window's dimensions, behind those of channels; how many places they have.
static uint64_t take_window(struct onnx_maker *m, const struct graph_tensor *x,
                            uint32_t dims[GRAPH_MAX_DIMS])
{
    int64_t kernel[ONNX_MAX_SHAPE];
    uint32_t n = 0;
    uint64_t all = 1;
    m->l->node = m->of;
    onnx_made_fail(m, onnx_ints(m->l, "kernel_shape", kernel, &n, m->e));
    if (m->r == 0 && (n + 2 != x->n_dims || n > GRAPH_MAX_DIMS - 2))
        onnx_made_refuse(m, "its kernel_shape does not fit its image");
    for (uint32_t i = 0; i < n && m->r == 0; i++) {
        if (kernel[i] < 1 || kernel[i] > 65535 || all > ONNX_FOLDED_MAX)
            onnx_made_refuse(m, "its kernel_shape is not possible");
        dims[2 + i] = (uint32_t)kernel[i];
        all *= (uint64_t)kernel[i];
    }
    return all;
}

// Ones, a window of them for each channel.
static const char *window_of_ones(struct onnx_maker *m, const struct graph_tensor *x)
{
    uint32_t dims[GRAPH_MAX_DIMS] = {x->dims[1], 1};
    const uint64_t all = take_window(m, x, dims);
    float *ones =
        m->r < 0 || all > ONNX_FOLDED_MAX ? NULL : onnx_made_room(m, all * dims[0], sizeof *ones);
    if (!ones)
        onnx_made_refuse(m, "its kernel_shape is not possible");
    for (uint64_t i = 0; ones && i < all * dims[0]; i++)
        ones[i] = 1;
    return ones ? onnx_step_floats(m, ones, x->n_dims, dims) : "";
}

// The image, input 0. NULL refuses.
static const struct graph_tensor *take_image(struct onnx_maker *m)
{
    const struct graph_tensor *t = onnx_made_tensor(m, onnx_made_input(m, 0));
    if (t && t->n_dims < 3)
        onnx_made_refuse(m, "its image has fewer than three dimensions");
    return m->r < 0 ? NULL : t;
}

int onnx_make_lp_pool(struct onnx_maker *m)
{
    struct onnx_attr attrs[MAX_ATTRS];
    uint32_t n = 0;
    const int64_t p = take_power(m);
    onnx_made_allow(m, "auto_pad ceil_mode dilations kernel_shape p pads strides", 1);
    if (onnx_made_int(m, "ceil_mode", 0))
        onnx_made_refuse(m, "ceil_mode is not supported");
    const struct graph_tensor *t = take_image(m);
    if (!t)
        return m->r;
    attrs[n++] = (struct onnx_attr){.name = "group", .i = t->dims[1]};
    const char *ones = window_of_ones(m, t);
    for (uint32_t i = 0; i < m->of->n_attrs && n < MAX_ATTRS; i++)
        if (!onnx_has_word("ceil_mode p", m->of->attrs[i].name))
            attrs[n++] = m->of->attrs[i];
    const char *powers = step_power(m, onnx_made_input(m, 0), p, false, NULL);
    const char *sums = onnx_step(m, "Conv", ONNX_IN(powers, ones), NULL, attrs, n);
    step_power(m, sums, p, true, onnx_made_output(m, 0));
    return m->r;
}

int onnx_make_global_lp_pool(struct onnx_maker *m)
{
    const int64_t p = take_power(m);
    int64_t axes[GRAPH_MAX_DIMS];
    onnx_made_allow(m, "p", 1);
    const struct graph_tensor *t = take_image(m);
    if (!t)
        return m->r;
    const uint32_t n = t->n_dims - 2;
    for (uint32_t i = 0; i < n; i++)
        axes[i] = 2 + i;
    const struct onnx_attr a = {.name = "axes", .ints = {axes, n, 0}};
    const bool as_input = m->l->f->opset >= 13;
    const char *powers = step_power(m, onnx_made_input(m, 0), p, false, NULL);
    const char *sums =
        onnx_step(m, "ReduceSum", ONNX_IN(powers, as_input ? onnx_step_ints(m, axes, n) : NULL),
                  NULL, &a, !as_input);
    step_power(m, sums, p, true, onnx_made_output(m, 0));
    return m->r;
}

// ---- Col2Im ----

// A constant input of n whole numbers from 1 to 65535; false refuses.
static bool take_sizes(struct onnx_maker *m, uint32_t i, uint32_t n, int64_t *dst)
{
    const struct graph_tensor *t = onnx_made_tensor(m, onnx_made_input(m, i));
    uint32_t found = 0;
    bool fits =
        t && t->constant && t->n_elems == n && graph_tensor_ints(t, dst, n, &found, NULL) == 0;
    for (uint32_t k = 0; k < n && fits; k++)
        fits = dst[k] >= 1 && dst[k] <= 65535;
    if (!fits)
        onnx_made_refuse(m, "its sizes are not those of images, or not known when it is loaded");
    return fits;
}

// n integers of an attribute of the node, or `otherwise`.
static void take_list(struct onnx_maker *m, const char *name, uint32_t n, int64_t otherwise,
                      int64_t *dst)
{
    uint32_t found = 0;
    m->l->node = m->of;
    onnx_made_fail(m, onnx_ints(m->l, name, dst, &found, m->e));
    for (uint32_t i = 0; i < n && !found; i++)
        dst[i] = otherwise;
    for (uint32_t i = 0; i < n && m->r == 0; i++)
        if ((found && found != n) || dst[i] < 0 || dst[i] > 65535)
            onnx_made_refuse(m, "an attribute of it is not possible");
}

// A weight for each element of a block, with a one where it is.
static const char *places_in_block(struct onnx_maker *m, const int64_t block[2])
{
    const uint64_t n = (uint64_t)block[0] * (uint64_t)block[1];
    const uint32_t dims[] = {(uint32_t)n, 1, (uint32_t)block[0], (uint32_t)block[1]};
    float *w = n <= 65535 ? onnx_made_room(m, n * n, sizeof *w) : NULL;
    if (!w)
        onnx_made_refuse(m, "its blocks are too large");
    for (uint64_t k = 0; k < n && w; k++)
        w[k * n + k] = 1;
    return w ? onnx_step_floats(m, w, 4, dims) : "";
}

// Where blocks lie in an image.
struct blocks {
    int64_t image[2], block[2], n[2]; // sizes in pixels; how many blocks there are
    int64_t strides[ONNX_MAX_SHAPE], dilations[ONNX_MAX_SHAPE], pads[ONNX_MAX_SHAPE];
    int64_t more[2]; // pixels behind the last block
};

static void take_blocks(struct onnx_maker *m, struct blocks *b)
{
    if (!take_sizes(m, 1, 2, b->image) || !take_sizes(m, 2, 2, b->block))
        return;
    take_list(m, "strides", 2, 1, b->strides);
    take_list(m, "dilations", 2, 1, b->dilations);
    take_list(m, "pads", 4, 0, b->pads);
    for (uint32_t i = 0; i < 2 && m->r == 0; i++) {
        const int64_t room =
            b->image[i] + b->pads[i] + b->pads[2 + i] - b->dilations[i] * (b->block[i] - 1) - 1;
        if (room < 0 || b->strides[i] < 1) {
            onnx_made_refuse(m, "its blocks are larger than its image");
            return;
        }
        b->n[i] = room / b->strides[i] + 1;
        b->more[i] = room % b->strides[i];
    }
}

// x is [N, C * elements of a block, blocks]. Channels are a batch of images of their own.
int onnx_make_col2im(struct onnx_maker *m)
{
    const char *x = onnx_made_input(m, 0);
    struct blocks b = {0};
    onnx_made_allow(m, "dilations pads strides", 3);
    take_blocks(m, &b);
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    if (!t || m->r < 0) // sizes that were refused are still in b
        return m->r;
    const int64_t each = b.block[0] * b.block[1];
    if (t->n_dims != 3 || t->dims[1] % each || t->dims[2] != b.n[0] * b.n[1] || !t->n_elems) {
        onnx_made_refuse(m, "its blocks do not fit its image");
        return m->r;
    }
    const int64_t channels = t->dims[1] / each;
    const int64_t apart[] = {t->dims[0] * channels, each, b.n[0], b.n[1]};
    const int64_t whole[] = {t->dims[0], channels, b.image[0], b.image[1]};
    const struct onnx_attr attrs[] = {{.name = "strides", .ints = {b.strides, 2, 0}},
                                      {.name = "dilations", .ints = {b.dilations, 2, 0}},
                                      {.name = "pads", .ints = {b.pads, 4, 0}},
                                      {.name = "output_padding", .ints = {b.more, 2, 0}}};
    const char *images = onnx_step_reshaped(m, x, apart, 4, NULL);
    const char *y =
        onnx_step(m, "ConvTranspose", ONNX_IN(images, places_in_block(m, b.block)), NULL, attrs, 4);
    onnx_step_reshaped(m, y, whole, 4, onnx_made_output(m, 0));
    return m->r;
}

// ---- CenterCropPad ----

// One axis. Of an odd difference the smaller half is in front.
static const char *crop_or_pad(struct onnx_maker *m, const char *x, int64_t axis, int64_t size)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t pads[2 * GRAPH_MAX_DIMS] = {0};
    if (!t)
        return x;
    const int64_t n = t->dims[axis], dims = t->n_dims;
    if (n >= size)
        return n == size ? x
                         : onnx_step_sliced(m, x, axis, (n - size) / 2, (n - size) / 2 + size, 1);
    pads[axis] = (size - n) / 2;
    pads[dims + axis] = size - n - pads[axis];
    return onnx_step_two(m, "Pad", x, onnx_step_ints(m, pads, (uint32_t)(2 * dims)), NULL);
}

// The axes that sizes are of: those of the attribute, or all.
static uint32_t take_crop_axes(struct onnx_maker *m, uint32_t dims, int64_t axes[ONNX_MAX_SHAPE])
{
    uint32_t n = 0;
    m->l->node = m->of;
    onnx_made_fail(m, onnx_ints(m->l, "axes", axes, &n, m->e));
    for (uint32_t i = 0; i < dims && !n; i++)
        axes[i] = i;
    n = n ? n : dims;
    if (n > dims)
        onnx_made_refuse(m, "it has more axes than dimensions");
    for (uint32_t i = 0; i < n && m->r == 0; i++)
        onnx_made_fail(m, onnx_axis(m->l, axes[i], dims, &axes[i], m->e));
    return n;
}

int onnx_make_center_crop(struct onnx_maker *m)
{
    const char *x = onnx_made_input(m, 0);
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t axes[ONNX_MAX_SHAPE], sizes[GRAPH_MAX_DIMS];
    onnx_made_allow(m, "axes", 2);
    if (!t)
        return m->r;
    const uint32_t n = take_crop_axes(m, t->n_dims, axes);
    if (m->r < 0 || !take_sizes(m, 1, n, sizes))
        return m->r;
    for (uint32_t i = 0; i < n && m->r == 0; i++)
        x = crop_or_pad(m, x, axes[i], sizes[i]);
    onnx_step_one(m, "Identity", x, onnx_made_output(m, 0));
    return m->r;
}
