// Convolutions and pools of ONNX that the reference operators compute (ref_window.c): with three or
// more dimensions, of integers, with weights that are computed while running, with positions of
// maxima. Slower than those of onnx_layers.c, but general.
#include "npu/model/onnx/onnx_lower.h"

#define MAX_SPATIAL (GRAPH_MAX_DIMS - 2)

struct window {
    uint32_t n;
    int64_t groups, flags;
    int64_t kernel[ONNX_MAX_SHAPE], stride[ONNX_MAX_SHAPE], dilation[ONNX_MAX_SHAPE];
    int64_t pads[ONNX_MAX_SHAPE]; // n in front, n behind
};

// n numbers of an attribute, `otherwise` for each if there is none; from `least` to 65535.
static int take_each(const struct onnx_lowering *l, const char *name, uint32_t n, int64_t otherwise,
                     int64_t min, int64_t *dst, struct error *e)
{
    uint32_t found;
    int r = onnx_ints(l, name, dst, &found, e);
    for (uint32_t i = 0; i < n && !found && r == 0; i++)
        dst[i] = otherwise;
    if (r == 0 && found && found != n)
        return onnx_refuse(l, e, "attribute %s has %u numbers", name, found);
    for (uint32_t i = 0; i < n && r == 0; i++)
        if (dst[i] < min || dst[i] > 65535)
            return onnx_refuse(l, e, "attribute %s holds %lld", name, (long long)dst[i]);
    return r;
}

// All but the kernel. x is [N, C, ...]: the window has the other dimensions.
static int take_window(const struct onnx_lowering *l, struct window *w, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (x->n_dims < 3 || x->n_dims > GRAPH_MAX_DIMS || !x->n_elems)
        return onnx_refuse(l, e, "its image has %u dimensions", x->n_dims);
    w->n = x->n_dims - 2;
    w->groups = onnx_int(l, "group", 1);
    int r = take_each(l, "strides", w->n, 1, 1, w->stride, e);
    if (r == 0)
        r = take_each(l, "dilations", w->n, 1, 1, w->dilation, e);
    return r == 0 ? take_each(l, "pads", 2 * w->n, 0, 0, w->pads, e) : r;
}

// The kernel is the weight's.
static int take_kernel(const struct onnx_lowering *l, struct window *w, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *weight = onnx_in(l, 1);
    int64_t said[ONNX_MAX_SHAPE];
    int r = take_window(l, w, e);
    if (r < 0)
        return r;
    if (weight->n_dims != x->n_dims || !weight->n_elems)
        return onnx_refuse(l, e, "its weight does not fit its image");
    for (uint32_t i = 0; i < w->n; i++)
        w->kernel[i] = weight->dims[2 + i];
    r = take_each(l, "kernel_shape", w->n, 1, 1, said, e);
    if (r == 0 && onnx_has_attr(l, "kernel_shape") &&
        memcmp(said, w->kernel, w->n * sizeof *said) != 0)
        return onnx_refuse(l, e, "its kernel_shape is not that of its weight");
    if (r == 0 && (w->groups < 1 || x->dims[1] % w->groups || weight->dims[0] % w->groups))
        return onnx_refuse(l, e, "%lld groups of %u channels", (long long)w->groups, x->dims[1]);
    return r;
}

// Pixels from the first to the last tap of a dilated kernel.
static int64_t reach(const struct window *w, uint32_t i)
{
    return w->dilation[i] * (w->kernel[i] - 1) + 1;
}

// Splits `all` lines of padding in dimension i; an odd one goes to the end, or with SAME_LOWER to
// the beginning.
static void pad_both(const struct onnx_lowering *l, struct window *w, uint32_t i, int64_t all)
{
    bool lower = onnx_text_is(l, "auto_pad", "SAME_LOWER", "NOTSET");
    all = all < 0 ? 0 : all;
    w->pads[i] = lower ? all - all / 2 : all / 2;
    w->pads[w->n + i] = all - w->pads[i];
}

// Whether auto_pad keeps the size (divided by the stride).
static bool pads_alike(const struct onnx_lowering *l)
{
    return onnx_text_is(l, "auto_pad", "SAME_UPPER", "NOTSET") ||
           onnx_text_is(l, "auto_pad", "SAME_LOWER", "NOTSET");
}

// auto_pad: as much that the output is ceil(input / stride); else the attribute `pads` counts.
static int pad(const struct onnx_lowering *l, struct window *w, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (pads_alike(l)) {
        for (uint32_t i = 0; i < w->n; i++) {
            int64_t in = x->dims[2 + i], out = (in + w->stride[i] - 1) / w->stride[i];
            pad_both(l, w, i, (out - 1) * w->stride[i] + reach(w, i) - in);
        }
    } else if (onnx_text_is(l, "auto_pad", "VALID", "NOTSET")) {
        memset(w->pads, 0, sizeof w->pads);
    } else if (!onnx_text_is(l, "auto_pad", "NOTSET", "NOTSET")) {
        return onnx_refuse(l, e, "its auto_pad is not known");
    }
    return 0;
}

// dims[2…] of what comes out, rounded down or up.
static int window_sizes(const struct onnx_lowering *l, const struct window *w, bool ceiling,
                        uint32_t *dims, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    for (uint32_t i = 0; i < w->n; i++) {
        int64_t in = x->dims[2 + i], padded = in + w->pads[i] + w->pads[w->n + i];
        int64_t room = padded - reach(w, i), n = room / w->stride[i] + 1;
        if (room < 0)
            return onnx_refuse(l, e, "its kernel is larger than its image");
        if (ceiling && room % w->stride[i] && n * w->stride[i] >= in + w->pads[i])
            return onnx_refuse(l, e, "with ceil_mode its last window lies outside its image");
        dims[2 + i] = (uint32_t)(n + (ceiling && room % w->stride[i]));
    }
    return 0;
}

// ints: dimensions, groups, flags, then kernel, strides, dilations, pads in front and behind.
static int emit(struct onnx_lowering *l, enum graph_ref_op op, uint32_t n_in,
                const struct window *w, struct error *e)
{
    int64_t ints[3 + 5 * MAX_SPATIAL] = {w->n, w->groups, w->flags};
    size_t each = w->n * sizeof *ints;
    memcpy(ints + 3, w->kernel, each);
    memcpy(ints + 3 + w->n, w->stride, each);
    memcpy(ints + 3 + 2 * w->n, w->dilation, each);
    memcpy(ints + 3 + 3 * w->n, w->pads, 2 * each);
    return onnx_emit_ref(l, op, n_in, ints, 3 + 5 * w->n, e);
}

// ---- convolutions ----

// `type`: of the output; n_in: inputs that the operator takes.
static int lower_conv(struct onnx_lowering *l, struct window *w, enum tensor_type type,
                      uint32_t n_in, struct error *e)
{
    uint32_t dims[GRAPH_MAX_DIMS];
    int r = take_kernel(l, w, e);
    if (r == 0)
        r = pad(l, w, e);
    if (r == 0)
        r = window_sizes(l, w, false, dims, e);
    if (r < 0)
        return r;
    dims[0] = onnx_in(l, 0)->dims[0];
    dims[1] = onnx_in(l, 1)->dims[0];
    r = onnx_shape(l, 0, type, w->n + 2, dims, e);
    return r < 0 ? r : emit(l, REF_OP_CONV, n_in, w, e);
}

int onnx_lower_any_conv(struct onnx_lowering *l, struct error *e)
{
    struct window w = {0};
    if (!onnx_is_float(onnx_in(l, 0)->type))
        return onnx_refuse(l, e, "it works on floats");
    return lower_conv(l, &w, onnx_in(l, 0)->type, 3, e);
}

// int8 or uint8 images and weights; inputs 2 and 3 are their zero points.
int onnx_lower_any_conv_integer(struct onnx_lowering *l, struct error *e)
{
    struct window w = {.flags = REF_ZERO_POINTS};
    if (onnx_is_float(onnx_in(l, 0)->type))
        return onnx_refuse(l, e, "it works on whole numbers");
    return lower_conv(l, &w, TENSOR_INT32, 4, e);
}

// As pad_both(), but here an odd line goes to the beginning unless SAME_UPPER is said: ONNX says so
// from operator set 11 on, and ONNX Runtime does so of all.
static void pad_transposed(const struct onnx_lowering *l, struct window *w, uint32_t i, int64_t all)
{
    bool upper = onnx_text_is(l, "auto_pad", "SAME_UPPER", "NOTSET");
    all = all < 0 ? 0 : all;
    w->pads[i] = upper ? all / 2 : all - all / 2;
    w->pads[w->n + i] = all - w->pads[i];
}

// Either the output's size is given (output_shape, or auto_pad: input * stride) and pads follow, or
// the other way round.
static int transposed_sizes(const struct onnx_lowering *l, struct window *w, uint32_t *dims,
                            struct error *e)
{
    int64_t more[ONNX_MAX_SHAPE], shape[ONNX_MAX_SHAPE];
    const struct graph_tensor *x = onnx_in(l, 0);
    bool said = onnx_has_attr(l, "output_shape"), alike = pads_alike(l);
    int r = take_each(l, "output_padding", w->n, 0, 0, more, e);
    if (r == 0)
        r = take_each(l, "output_shape", w->n, 0, 0, shape, e);
    if (r == 0 && !alike)
        r = pad(l, w, e);
    for (uint32_t i = 0; i < w->n && r == 0; i++) {
        int64_t whole = w->stride[i] * ((int64_t)x->dims[2 + i] - 1) + more[i] + reach(w, i);
        int64_t size = said ? shape[i] : w->stride[i] * x->dims[2 + i];
        if (said || alike)
            pad_transposed(l, w, i, whole - size);
        else
            size = whole - w->pads[i] - w->pads[w->n + i];
        if (size < 1 || size > INT32_MAX)
            return onnx_refuse(l, e, "its output would have %lld lines", (long long)size);
        dims[2 + i] = (uint32_t)size;
    }
    return r;
}

int onnx_lower_any_conv_transpose(struct onnx_lowering *l, struct error *e)
{
    struct window w = {.flags = REF_TRANSPOSED};
    uint32_t dims[GRAPH_MAX_DIMS];
    const struct graph_tensor *x = onnx_in(l, 0), *weight = onnx_in(l, 1);
    int r = take_kernel(l, &w, e);
    if (r < 0)
        return r;
    if (!onnx_is_float(x->type) || weight->dims[0] != x->dims[1])
        return onnx_refuse(l, e, "its weight is for %u channels", weight->dims[0]);
    r = transposed_sizes(l, &w, dims, e);
    dims[0] = x->dims[0];
    dims[1] = weight->dims[1] * (uint32_t)w.groups;
    if (r == 0)
        r = onnx_shape(l, 0, x->type, w.n + 2, dims, e);
    return r < 0 ? r : emit(l, REF_OP_CONV_TRANSPOSE, 3, &w, e);
}

// ---- pools ----

// Pads must be smaller than the kernel: else a window could be without any pixel.
int onnx_lower_any_pool(struct onnx_lowering *l, struct error *e)
{
    struct window w = {0};
    uint32_t dims[GRAPH_MAX_DIMS];
    const struct graph_tensor *x = onnx_in(l, 0);
    bool max = l->operator->argument == GRAPH_MAX_POOL;
    int r = take_window(l, &w, e);
    if (r == 0)
        r = take_each(l, "kernel_shape", w.n, 1, 1, w.kernel, e);
    if (r == 0)
        r = pad(l, &w, e);
    if (r == 0)
        r = window_sizes(l, &w, onnx_int(l, "ceil_mode", 0), dims, e);
    if (r < 0)
        return r;
    if (!max && !onnx_is_float(x->type))
        return onnx_refuse(l, e, "it works on floats");
    for (uint32_t i = 0; i < w.n; i++)
        if (w.pads[i] >= w.kernel[i] || w.pads[w.n + i] >= w.kernel[i])
            return onnx_refuse(l, e, "its padding is as large as its kernel");
    w.flags = (onnx_int(l, "count_include_pad", 0) ? REF_COUNT_PAD : 0) |
              (onnx_int(l, "storage_order", 0) ? REF_COLUMNS_FIRST : 0);
    memcpy(dims, x->dims, 2 * sizeof *dims);
    r = onnx_shape(l, 0, x->type, w.n + 2, dims, e);
    if (r == 0)
        r = onnx_shape(l, 1, TENSOR_INT64, w.n + 2, dims, e);
    return r < 0 ? r : emit(l, max ? REF_OP_MAX_POOL : REF_OP_AVERAGE_POOL, 1, &w, e);
}
