// Convolutions, pools, BatchNormalization and products of matrices of ONNX, for the cases that fast
// kernels compute: images of one or two dimensions (N, C, [H,] W) with constant weights. All else
// goes to onnx_window.c. Arrays of two are height, width; an image of one dimension has height 1,
// so one set of kernels serves both.
#include <math.h>

#include "npu/model/onnx/onnx_lower.h"

// ---- windows ----

// One or two numbers of an attribute, each 1 to 65535; of one dimension the height is 1.
static int take_pair(const struct onnx_lowering *l, const char *name, uint32_t spatial,
                     int64_t otherwise, uint32_t dst[2], struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_ints(l, name, v, &n, e);
    if (r < 0)
        return r;
    if (n && n != spatial)
        return onnx_refuse(l, e, "attribute %s has %u numbers for %u dimensions", name, n, spatial);
    dst[0] = dst[1] = spatial == 2 && !n ? (uint32_t)otherwise : 1;
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t one = n ? v[i] : otherwise;
        if (one < 1 || one > 65535)
            return onnx_refuse(l, e, "attribute %s holds %lld", name, (long long)one);
        dst[2 - spatial + i] = (uint32_t)one;
    }
    return 0;
}

// ONNX lists all pads in front, then all behind; the graph has top, left, bottom, right: the same
// order for two dimensions.
static int take_pads(const struct onnx_lowering *l, uint32_t spatial, uint32_t pad[4],
                     struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_ints(l, "pads", v, &n, e);
    if (r < 0)
        return r;
    if (n && n != 2 * spatial)
        return onnx_refuse(l, e, "attribute pads has %u numbers", n);
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] > 65535)
            return onnx_refuse(l, e, "padding of %lld", (long long)v[i]);
        uint32_t end = i / spatial, dim = 2 - spatial + i % spatial;
        pad[end * 2 + dim] = (uint32_t)v[i];
    }
    return 0;
}

// auto_pad: as much that the output is ceil(input / stride). An odd line goes to the end
// (SAME_UPPER) or the beginning (SAME_LOWER). VALID is no padding at all.
static int pad_alike(const struct onnx_lowering *l, struct graph_window *w, const uint32_t in[2],
                     struct error *e)
{
    bool upper = onnx_text_is(l, "auto_pad", "SAME_UPPER", "NOTSET");
    bool lower = onnx_text_is(l, "auto_pad", "SAME_LOWER", "NOTSET");
    if (!upper && !lower) {
        bool valid = onnx_text_is(l, "auto_pad", "VALID", "NOTSET");
        if (valid)
            memset(w->pad, 0, sizeof w->pad);
        return valid || onnx_text_is(l, "auto_pad", "NOTSET", "NOTSET")
                   ? 0
                   : onnx_refuse(l, e, "its auto_pad is not known");
    }
    for (int i = 0; i < 2; i++) {
        int64_t out = ((int64_t)in[i] + w->stride[i] - 1) / w->stride[i];
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t all = (out - 1) * w->stride[i] + reach - in[i];
        all = all < 0 ? 0 : all;
        w->pad[i] = (uint32_t)(lower ? all - all / 2 : all / 2);
        w->pad[2 + i] = (uint32_t)all - w->pad[i];
    }
    return 0;
}

// Strides, dilations and padding; the kernel is set.
static int take_window(const struct onnx_lowering *l, uint32_t spatial, const uint32_t in[2],
                       struct graph_window *w, struct error *e)
{
    int r = take_pair(l, "strides", spatial, 1, w->stride, e);
    if (r == 0)
        r = take_pair(l, "dilations", spatial, 1, w->dilation, e);
    if (r == 0)
        r = take_pads(l, spatial, w->pad, e);
    return r < 0 ? r : pad_alike(l, w, in, e);
}

// The output's size: floor((input + pads - reach) / stride) + 1, or rounded up with `ceiling`.
static int out_size(const struct onnx_lowering *l, const struct graph_window *w, int i, uint32_t in,
                    bool ceiling, uint32_t *ret, struct error *e)
{
    int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
    int64_t room = (int64_t)in + w->pad[i] + w->pad[2 + i] - reach;
    if (room < 0)
        return onnx_refuse(l, e, "its kernel is larger than its image");
    int64_t n = room / w->stride[i] + 1;
    if (ceiling && room % w->stride[i]) {
        // A window that would begin in the padding behind the image is left out by some, not by
        // others.
        if (n * w->stride[i] >= (int64_t)in + w->pad[i])
            return onnx_refuse(l, e, "with ceil_mode its last window lies outside its image");
        n++;
    }
    *ret = (uint32_t)n;
    return 0;
}

// ---- images of one dimension are images of height 1 ----

// [N, C, …] as [N, C, 1, W].
static int32_t as_image(struct onnx_lowering *l, int32_t tensor, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[tensor];
    if (t->n_dims == 4)
        return tensor;
    uint32_t dims[4] = {t->dims[0], t->dims[1], 1, 1};
    for (uint32_t i = 2; i < t->n_dims; i++)
        dims[3] *= t->dims[i];
    return onnx_reshaped(l, tensor, 4, dims, e);
}

// A node between images; its output is brought back to as many dimensions as the input has.
static int emit_on_images(struct onnx_lowering *l, enum graph_op op, const struct graph_node *what,
                          int32_t *in, uint32_t n_in, const uint32_t dims[4], struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    bool flat = x->n_dims != 4;
    uint32_t own[GRAPH_MAX_DIMS] = {dims[0], dims[1]}, n_own = x->n_dims;
    for (uint32_t i = 2; i < n_own; i++)
        own[i] = i == n_own - 1 ? dims[3] : 1;
    enum tensor_type type = x->type;
    int r = onnx_shape(l, 0, type, n_own, flat ? own : dims, e);
    if (r < 0)
        return r;
    in[0] = as_image(l, in[0], e);
    int32_t out = flat ? onnx_temporary(l, type, 4, dims, e) : l->out[0];
    if (in[0] < 0 || out < 0)
        return STATUS_MODEL_INVALID;
    struct graph_node *n = onnx_emit(l, op, in, n_in, &out, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->window = what->window;
    if (!flat)
        return 0;
    return onnx_emit(l, GRAPH_RESHAPE, &out, 1, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Images of one or two dimensions that are not empty.
static int check_image(const struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (x->n_dims != 3 && x->n_dims != 4)
        return onnx_refuse(l, e, "images of %d dimensions are not supported", (int)x->n_dims - 2);
    return x->n_elems ? 0 : onnx_refuse(l, e, "its image is empty");
}

static void image_size(const struct graph_tensor *x, uint32_t in[2])
{
    in[0] = x->n_dims == 4 ? x->dims[2] : 1;
    in[1] = x->dims[x->n_dims - 1];
}

// ---- Conv ----

// A convolution that is none of images with constant weights.
static bool is_unusual(const struct onnx_lowering *l)
{
    const struct graph_tensor *x = onnx_in(l, 0), *w = onnx_in(l, 1), *b = onnx_in(l, 2);
    return x->n_dims > 4 || !w->constant || (b && !b->constant);
}

// Float images with a weight and bias of the same type.
static int check_weight(const struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *w = onnx_in(l, 1), *b = onnx_in(l, 2);
    int r = check_image(l, e);
    if (r < 0)
        return r;
    if (w->n_dims != x->n_dims || !w->constant || !w->n_elems || (b && !b->constant))
        return onnx_refuse(l, e, "its weight and bias must be constants that fit its image");
    if (!onnx_is_float(x->type) || w->type != x->type || (b && b->type != x->type))
        return onnx_refuse(l, e, "it works on floats");
    return 0;
}

// The kernel is the weight's; a kernel_shape attribute must agree. Groups must divide inputs and
// outputs.
static int take_kernel(const struct onnx_lowering *l, struct graph_window *w, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *weight = onnx_in(l, 1);
    uint32_t in[2], said[2];
    int64_t groups = onnx_int(l, "group", 1);
    image_size(x, in);
    w->kernel[0] = weight->n_dims == 4 ? weight->dims[2] : 1;
    w->kernel[1] = weight->dims[weight->n_dims - 1];
    if (groups < 1 || groups > x->dims[1] || x->dims[1] % groups || weight->dims[0] % groups)
        return onnx_refuse(l, e, "%lld groups of %u channels", (long long)groups, x->dims[1]);
    w->groups = (uint32_t)groups;
    if (onnx_has_attr(l, "kernel_shape")) {
        int r = take_pair(l, "kernel_shape", x->n_dims - 2, 1, said, e);
        if (r < 0)
            return r;
        if (memcmp(said, w->kernel, sizeof said) != 0)
            return onnx_refuse(l, e, "its kernel_shape is not that of its weight");
    }
    return take_window(l, x->n_dims - 2, in, w, e);
}

// as_image() of a weight. What is known of a dequantized one is known of its image, too: so that
// onnx_qdq() finds the file's numbers.
static int32_t as_weight(struct onnx_lowering *l, int32_t tensor, struct error *e)
{
    int32_t image = as_image(l, tensor, e);
    for (uint32_t i = 0; i < l->n_origins && image >= 0 && image != tensor; i++) {
        struct onnx_origin origin = l->origins[i];
        if (origin.tensor != tensor)
            continue;
        origin.tensor = image;
        origin.q = as_image(l, origin.q, e);
        if (origin.q < 0)
            return origin.q;
        if (!pool_reserve(&l->g->pool, l->origins, l->n_origins, l->room_origins, l->n_origins + 1))
            return error_no_memory(e, "the graph", 0);
        l->origins[l->n_origins++] = origin;
        break;
    }
    return image;
}

// Weight: [outputs, inputs of a group, kh, kw].
int onnx_lower_conv(struct onnx_lowering *l, struct error *e)
{
    struct graph_node n = {0};
    uint32_t in[2], dims[4];
    if (is_unusual(l))
        return onnx_lower_any_conv(l, e);
    int r = check_weight(l, e);
    if (r == 0)
        r = take_kernel(l, &n.window, e);
    if (r < 0)
        return r;
    const struct graph_tensor *x = onnx_in(l, 0);
    image_size(x, in);
    dims[0] = x->dims[0];
    dims[1] = onnx_in(l, 1)->dims[0];
    for (int i = 0; i < 2 && r == 0; i++)
        r = out_size(l, &n.window, i, in[i], false, &dims[2 + i], e);
    if (r < 0)
        return r;
    int32_t edges[3] = {l->in[0], as_weight(l, l->in[1], e), l->n_in > 2 ? l->in[2] : -1};
    return edges[1] < 0 ? edges[1] : emit_on_images(l, GRAPH_CONV, &n, edges, 3, dims, e);
}

// An integer convolution of images with a constant weight: sums of bytes. Else onnx_window.c does
// it.
int onnx_lower_conv_integer(struct onnx_lowering *l, struct error *e)
{
    struct graph_node n = {0};
    const struct graph_tensor *x = onnx_in(l, 0), *w = onnx_in(l, 1);
    uint32_t in[2], dims[4];
    if ((x->n_dims != 3 && x->n_dims != 4) || w->n_dims != x->n_dims ||
        !onnx_sums_fit(l, w->dims[0]))
        return onnx_lower_any_conv_integer(l, e);
    bool flat = x->n_dims == 3;
    int r = take_kernel(l, &n.window, e);
    image_size(x, in);
    uint32_t x_dims[4] = {x->dims[0], x->dims[1], in[0], in[1]};
    dims[0] = x->dims[0];
    dims[1] = w->dims[0];
    for (int i = 0; i < 2 && r == 0; i++)
        r = out_size(l, &n.window, i, in[i], false, &dims[2 + i], e);
    if (r == 0)
        r = onnx_shape(l, 0, TENSOR_INT32, x->n_dims,
                       flat ? (uint32_t[]){dims[0], dims[1], dims[3]} : dims, e);
    int32_t weight = r < 0 ? r : as_image(l, l->in[1], e);
    int32_t image = weight < 0 ? weight : as_image(l, l->in[0], e);
    int32_t y = image < 0 || !flat ? l->out[0] : onnx_temporary(l, TENSOR_INT32, 4, dims, e);
    if (image < 0 || y < 0)
        return image < 0 ? image : y;
    r = onnx_emit_sums(l, image, x_dims, weight, false, &n.window, y, e);
    if (r < 0 || !flat)
        return r;
    return onnx_emit(l, GRAPH_RESHAPE, &y, 1, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// ---- ConvTranspose ----

// A transposed convolution is a convolution with the weight rotated by 180 degrees and inputs and
// outputs swapped. The file has [inputs][outputs of a group][kernel]; this makes [outputs][inputs
// of a group][rotated kernel].
static int32_t turn_weight(struct onnx_lowering *l, const struct graph_window *w, struct error *e)
{
    const struct graph_tensor *t = onnx_in(l, 1);
    size_t taps = (size_t)w->kernel[0] * w->kernel[1], size = tensor_type_size(t->type);
    size_t inputs = t->dims[0] / w->groups, outputs = t->dims[1];
    uint32_t dims[4] = {(uint32_t)(outputs * w->groups), (uint32_t)inputs, w->kernel[0],
                        w->kernel[1]};
    uint8_t *to = pool_alloc(&l->g->pool, t->n_elems, size);
    const uint8_t *from = t->data.data;
    if (!to)
        return error_no_memory(e, "a weight", t->size);
    for (size_t g = 0; g < w->groups; g++)
        for (size_t i = 0; i < inputs; i++)
            for (size_t o = 0; o < outputs; o++)
                for (size_t k = 0; k < taps; k++) {
                    size_t source = ((g * inputs + i) * outputs + o) * taps + k;
                    size_t target = ((g * outputs + o) * inputs + i) * taps + taps - 1 - k;
                    memcpy(to + target * size, from + source * size, size);
                }
    return onnx_constant(l, t->type, 4, dims, to, e);
}

// stride * (input - 1) + output_padding + reach - pads, as ONNX defines it.
static int transposed_size(const struct onnx_lowering *l, struct graph_window *w,
                           const uint32_t in[2], uint32_t out[2], struct error *e)
{
    uint32_t spatial = onnx_in(l, 0)->n_dims - 2, n;
    int64_t more[ONNX_MAX_SHAPE] = {0};
    int r = onnx_ints(l, "output_padding", more, &n, e);
    if (r < 0)
        return r;
    if (n && n != spatial)
        return onnx_refuse(l, e, "attribute output_padding has %u numbers", n);
    for (uint32_t i = 0; i < 2; i++) {
        int64_t extra = n && i >= 2 - spatial ? more[i - (2 - spatial)] : 0;
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t size =
            (int64_t)w->stride[i] * (in[i] - 1) + extra + reach - w->pad[i] - w->pad[2 + i];
        if (size < 1 || size > INT32_MAX || extra < 0)
            return onnx_refuse(l, e, "its output would have %lld lines", (long long)size);
        out[i] = (uint32_t)size;
    }
    return 0;
}

// output_shape and auto_pad compute pads from sizes: onnx_window.c does that.
int onnx_lower_conv_transpose(struct onnx_lowering *l, struct error *e)
{
    struct graph_node n = {0};
    uint32_t in[2], dims[4];
    if (is_unusual(l) || onnx_has_attr(l, "output_shape") ||
        !onnx_text_is(l, "auto_pad", "NOTSET", "NOTSET"))
        return onnx_lower_any_conv_transpose(l, e);
    int r = check_weight(l, e);
    if (r == 0)
        r = take_kernel(l, &n.window, e);
    if (r < 0)
        return r;
    const struct graph_tensor *x = onnx_in(l, 0), *w = onnx_in(l, 1);
    if (w->dims[0] != x->dims[1])
        return onnx_refuse(l, e, "its weight is for %u channels", w->dims[0]);
    image_size(x, in);
    dims[0] = x->dims[0];
    dims[1] = w->dims[1] * n.window.groups;
    r = transposed_size(l, &n.window, in, dims + 2, e);
    if (r < 0)
        return r;
    int32_t edges[3] = {l->in[0], turn_weight(l, &n.window, e), l->n_in > 2 ? l->in[2] : -1};
    return edges[1] < 0 ? edges[1] : emit_on_images(l, GRAPH_CONV_TRANSPOSE, &n, edges, 3, dims, e);
}

// ---- pools ----

// Padding as large as the kernel would make windows without any pixel. Places of maxima (output 1)
// are for onnx_window.c.
int onnx_lower_pool(struct onnx_lowering *l, struct error *e)
{
    struct graph_node n = {0};
    const struct graph_tensor *x = onnx_in(l, 0);
    uint32_t in[2], dims[4];
    if (x->n_dims > 4 || l->n_out > 1)
        return onnx_lower_any_pool(l, e);
    int r = check_image(l, e);
    if (r < 0)
        return r;
    image_size(x, in);
    if (!onnx_has_attr(l, "kernel_shape"))
        return onnx_refuse(l, e, "it has no kernel_shape");
    r = take_pair(l, "kernel_shape", x->n_dims - 2, 1, n.window.kernel, e);
    if (r == 0)
        r = take_window(l, x->n_dims - 2, in, &n.window, e);
    bool ceiling = onnx_int(l, "ceil_mode", 0);
    n.window.groups = 1;
    n.window.count_pad = onnx_int(l, "count_include_pad", 0);
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 0; i < 2 && r == 0; i++) {
        const struct graph_window *w = &n.window;
        if (w->pad[i] >= w->kernel[i] || w->pad[2 + i] >= w->kernel[i])
            return onnx_refuse(l, e, "its padding is as large as its kernel");
        r = out_size(l, w, i, in[i], ceiling, &dims[2 + i], e);
    }
    int32_t edge = l->in[0];
    return r < 0 ? r
                 : emit_on_images(l, (enum graph_op)l->operator->argument, &n, &edge, 1, dims, e);
}

// A pool whose kernel is the whole image.
int onnx_lower_global_pool(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    uint32_t dims[4] = {x->dims[0], x->dims[1], 1, 1};
    struct graph_node n = {0};
    if (x->n_dims < 3 || !x->n_elems)
        return onnx_refuse(l, e, "its image is empty, or has no dimension");
    uint64_t line = x->n_elems / x->dims[0] / x->dims[1];
    uint32_t height = x->n_dims == 4 ? x->dims[2] : 1;
    n.window = (struct graph_window){.kernel = {height, (uint32_t)(line / height)},
                                     .stride = {1, 1},
                                     .dilation = {1, 1},
                                     .groups = 1};
    int32_t edge = l->in[0];
    return emit_on_images(l, (enum graph_op)l->operator->argument, &n, &edge, 1, dims, e);
}

// ---- BatchNormalization ----

// An operand of BatchNormalization, as [1, C, 1 …] for x of `n` dimensions.
static int32_t per_channel(struct onnx_lowering *l, int32_t tensor, uint32_t n, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[tensor];
    uint32_t dims[GRAPH_MAX_DIMS];
    for (uint32_t i = 0; i < n; i++)
        dims[i] = i == 1 ? (uint32_t)t->n_elems : 1;
    return onnx_reshaped(l, tensor, n, dims, e);
}

// y = a op b of a new tensor, which has the shape of `like`.
static int32_t emit_pair(struct onnx_lowering *l, enum graph_op op, int32_t a, int32_t b,
                         int32_t like, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[like];
    int32_t y = onnx_temporary(l, t->type, t->n_dims, t->dims, e);
    int32_t in[2] = {a, b};
    if (y < 0)
        return y;
    return onnx_emit(l, op, in, 2, &y, 1, e) ? y : STATUS_MALLOC_FAIL;
}

// With operands that are computed: y = (x - mean) * (scale / sqrt(variance + epsilon)) + bias.
static int lower_computed_norm(struct onnx_lowering *l, struct error *e)
{
    int32_t p[5], deviation, factor = -1, centred = -1, scaled = -1;
    for (uint32_t i = 1; i < 5; i++) {
        p[i] = per_channel(l, l->in[i], onnx_in(l, 0)->n_dims, e);
        if (p[i] < 0)
            return p[i];
    }
    const struct graph_tensor *v = &l->g->tensors[p[4]];
    deviation = onnx_temporary(l, v->type, v->n_dims, v->dims, e);
    struct graph_node *n =
        deviation < 0 ? NULL : onnx_emit(l, GRAPH_UNARY, &p[4], 1, &deviation, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->n_post = 2;
    n->post[0] = (struct graph_post){
        .kind = POST_SCALE, .alpha = 1, .beta = onnx_float(l, "epsilon", 1e-5f)};
    n->post[1] = (struct graph_post){.kind = POST_SQRT};
    factor = emit_pair(l, GRAPH_DIV, p[1], deviation, deviation, e);
    centred = factor < 0 ? factor : emit_pair(l, GRAPH_SUB, l->in[0], p[3], l->in[0], e);
    scaled = centred < 0 ? centred : emit_pair(l, GRAPH_MUL, centred, factor, l->in[0], e);
    int32_t in[2] = {scaled, p[2]};
    if (scaled < 0)
        return scaled;
    return onnx_emit(l, GRAPH_ADD, in, 2, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Scale, bias, mean and variance of each channel; constants as a rule.
int onnx_lower_batch_norm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    bool constant = true;
    uint32_t mixed = 0;
    if (onnx_int(l, "training_mode", 0) || (l->f->opset < 7 && !onnx_int(l, "is_test", 0)) ||
        !onnx_int(l, "spatial", 1))
        return onnx_refuse(l, e, "training_mode, or not spatial, is not supported");
    if (!onnx_is_float(x->type) || x->n_dims < 2 || !x->n_elems)
        return onnx_refuse(l, e, "its input is not a tensor of floats with channels");
    for (uint32_t i = 1; i < 5; i++) {
        const struct graph_tensor *t = onnx_in(l, i);
        constant = constant && t->constant;
        if (!onnx_is_float(t->type) || t->n_elems != x->dims[1])
            return onnx_refuse(l, e, "its input %u is not of floats for %u channels", i,
                               x->dims[1]);
        if (t->type != x->type)
            mixed = i;
    }
    if (mixed && !constant)
        return onnx_refuse(l, e, "its inputs are computed, and input %u is of another type", mixed);
    int r = onnx_shape_like(l, 0, x, e);
    if (r < 0 || !constant)
        return r < 0 ? r : lower_computed_norm(l, e);
    struct graph_node *n = onnx_emit_own(l, GRAPH_BATCH_NORM, 5, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->norm.epsilon = onnx_float(l, "epsilon", 1e-5f);
    return 0;
}

// ---- products ----

static struct graph_node *emit_product(struct onnx_lowering *l, uint32_t n_in, struct error *e)
{
    struct graph_node *n = onnx_emit_own(l, GRAPH_MAT_MUL, n_in, e);
    if (n)
        n->product.alpha = n->product.beta = 1;
    return n;
}

static int check_floats(const struct onnx_lowering *l, uint32_t n, struct error *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (onnx_in(l, i) && !onnx_is_float(onnx_in(l, i)->type))
            return onnx_refuse(l, e, "it works on floats");
    return 0;
}

// alpha * A * B + beta * C, each of A and B transposed on demand.
int onnx_lower_gemm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *a = onnx_in(l, 0), *b = onnx_in(l, 1);
    bool turn_a = onnx_int(l, "transA", 0), turn_b = onnx_int(l, "transB", 0);
    int r = check_floats(l, 3, e);
    if (r < 0)
        return r;
    if (a->n_dims != 2 || b->n_dims != 2 || a->dims[!turn_a] != b->dims[turn_b])
        return onnx_refuse(l, e, "its inputs are not matrices that fit together");
    uint32_t dims[2] = {a->dims[turn_a], b->dims[!turn_b]};
    r = onnx_shape(l, 0, a->type, 2, dims, e);
    struct graph_node *n = r < 0 ? NULL : emit_product(l, 3, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->product.alpha = onnx_float(l, "alpha", 1);
    n->product.beta = onnx_float(l, "beta", 1);
    n->product.transpose[0] = turn_a;
    n->product.transpose[1] = turn_b;
    return 0;
}

// As numpy's matmul: dimensions before the last two are a batch, which broadcasts; a vector is a
// matrix of one row (A) or column (B), whose dimension of 1 the output lacks.
int onnx_lower_mat_mul(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *a = onnx_in(l, 0), *b = onnx_in(l, 1);
    uint32_t dims[GRAPH_MAX_DIMS], n = 0, na = a->n_dims, nb = b->n_dims;
    uint32_t batch_a = na > 2 ? na - 2 : 0, batch_b = nb > 2 ? nb - 2 : 0;
    int r = check_floats(l, 2, e);
    if (r < 0)
        return r;
    if (!na || !nb || a->dims[na - 1] != b->dims[nb > 1 ? nb - 2 : 0])
        return onnx_refuse(l, e, "its inputs do not fit together");
    uint32_t batch = batch_a > batch_b ? batch_a : batch_b;
    for (; n < batch; n++) {
        uint32_t da = n + batch_a < batch ? 1 : a->dims[n + batch_a - batch];
        uint32_t db = n + batch_b < batch ? 1 : b->dims[n + batch_b - batch];
        if (da != db && da != 1 && db != 1)
            return onnx_refuse(l, e, "its inputs do not fit together");
        dims[n] = da == 1 ? db : da;
    }
    if (na > 1)
        dims[n++] = a->dims[na - 2];
    if (nb > 1)
        dims[n++] = b->dims[nb - 1];
    r = onnx_shape(l, 0, a->type, n, dims, e);
    return r < 0 ? r : emit_product(l, 2, e) ? 0 : STATUS_MALLOC_FAIL;
}
