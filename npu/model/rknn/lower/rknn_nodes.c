// The nodes of a .rknn file: what each operator becomes. lower_node() looks the operator up in two
// tables at the end of this file: `operators` by the whole name, `fusing` by its beginning
// ("ConvAddRelu" is Conv with the suffix "AddRelu"). What is in neither goes to rknn_ref.c.
// Semantics are ONNX's unless docs/rknn-format.md says otherwise.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

// ---- operators without a window ----

int lower_inputs(struct rknn_lowering *l, uint32_t n, struct error *e)
{
    if (l->n_inputs < n)
        return lower_refuse(l, e, "it has %u inputs, %u are expected", l->n_inputs, n);
    for (uint32_t i = 0; i < n; i++)
        if (!lower_input(l, i))
            return lower_refuse(l, e, "its input %u is missing", i);
    l->out->n_inputs = n;
    return 0;
}

bool lower_number(const struct rknn_lowering *l, uint32_t input, float *ret)
{
    const struct graph_tensor *t = lower_input(l, input);
    if (!t || !t->constant || t->n_elems != 1 || t->unpack)
        return false;
    graph_tensor_floats(t, ret);
    return true;
}

// The operator's name is the activation.
static int lower_unary(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : lower_posts(l, l->node->op, -1, e);
}

static int lower_one(struct rknn_lowering *l, struct error *e)
{
    return lower_inputs(l, 1, e);
}

static int lower_two(struct rknn_lowering *l, const char *suffix, struct error *e)
{
    int r = lower_inputs(l, 2, e);
    return r < 0 ? r : lower_posts(l, suffix, -1, e);
}

// INT64_MIN / 2 as `absent` makes a missing axis invalid without overflowing here.
int lower_axis(struct rknn_lowering *l, int64_t absent, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    int64_t axis = rknn_attr_int(l->node, "axis", absent);
    axis += axis < 0 ? x->n_dims : 0;
    if (axis < 0 || axis >= x->n_dims)
        return lower_refuse(l, e, "it has no valid axis");
    l->out->axis = (int32_t)axis;
    return 0;
}

// The file lists scratch memory of the chip behind the real inputs, so inputs are taken until they
// fill the output.
static int lower_concat(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = lower_axis(l, INT64_MIN / 2, e)) < 0)
        return r;
    // Inputs that the output has no room for are the chip's working memory.
    const struct graph_tensor *y = lower_output(l, 0);
    uint64_t filled = 0;
    uint32_t n = 0, axis = (uint32_t)l->out->axis;
    while (n < l->n_inputs && filled < y->dims[axis]) {
        const struct graph_tensor *x = lower_input(l, n++);
        filled += x && x->n_dims > axis ? x->dims[axis] : UINT32_MAX;
    }
    if (y->n_dims <= axis || filled != y->dims[axis])
        return lower_refuse(l, e, "its inputs do not add up to its output");
    l->out->n_inputs = n;
    return 0;
}

static int lower_split(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : lower_axis(l, 0, e);
}

static int lower_last_axis(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : lower_axis(l, -1, e);
}

// The kernel returns the first of equal values.
static int lower_argmax(struct rknn_lowering *l, struct error *e)
{
    if (rknn_attr_int(l->node, "select_last_index", 0))
        return lower_refuse(l, e, "select_last_index is not supported");
    return lower_split(l, e);
}

// perm must name each dimension once.
static int lower_transpose(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0)
        return r;
    const struct graph_tensor *x = lower_input(l, 0);
    int64_t perm[GRAPH_MAX_DIMS];
    uint32_t n = rknn_attr_ints(l->node, "perm", perm, GRAPH_MAX_DIMS), seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (perm[i] < 0 || perm[i] >= n)
            return lower_refuse(l, e, "its perm is no permutation");
        seen |= 1u << perm[i];
        l->out->perm[i] = (uint32_t)perm[i];
    }
    if (n != x->n_dims || seen != (1u << n) - 1)
        return lower_refuse(l, e, "its perm is no permutation of %u dimensions", x->n_dims);
    return 0;
}

int lower_ints(struct rknn_lowering *l, uint32_t input, int64_t *values, uint32_t *n,
               struct error *e)
{
    const struct graph_tensor *t = lower_input(l, input);
    if (!t) {
        *n = 0;
        return 0;
    }
    if (graph_tensor_ints(t, values, 2 * GRAPH_MAX_DIMS, n, e) < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    return 0;
}

// Inputs: data, starts, ends, axes, steps. The ends are not needed, as the output's shape is known.
// Starts are counted from the end when negative, and clamped.
static int lower_slice(struct rknn_lowering *l, struct error *e)
{
    int64_t starts[2 * GRAPH_MAX_DIMS], axes[2 * GRAPH_MAX_DIMS], steps[2 * GRAPH_MAX_DIMS];
    uint32_t n, n_axes, n_steps;
    if (lower_inputs(l, 2, e) < 0 || lower_ints(l, 1, starts, &n, e) < 0 ||
        lower_ints(l, 3, axes, &n_axes, e) < 0 || lower_ints(l, 4, steps, &n_steps, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = lower_input(l, 0);
    if ((n_axes && n_axes != n) || (n_steps && n_steps != n) || n > x->n_dims)
        return lower_refuse(l, e, "starts, axes and steps do not fit together");
    for (uint32_t i = 0; i < x->n_dims; i++)
        l->out->slice.step[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t axis = n_axes ? axes[i] : i, step = n_steps ? steps[i] : 1;
        axis += axis < 0 ? x->n_dims : 0;
        if (axis < 0 || axis >= x->n_dims || step == 0 || step > INT32_MAX || step < -INT32_MAX)
            return lower_refuse(l, e, "axis or step %u is out of range", i);
        int64_t size = x->dims[axis], start = starts[i];
        start = start < -size ? -size : start > size ? size : start;
        start += start < 0 ? size : 0;
        l->out->slice.step[axis] = step;
        l->out->slice.start[axis] = step < 0 && start == size ? size - 1 : start;
    }
    l->out->n_inputs = 1;
    return 0;
}

// Inputs: data, pads (all that come first, then all that come last), value, axes. Only the first
// half is needed: the rest follows from the output's shape.
static int lower_pad(struct rknn_lowering *l, struct error *e)
{
    int64_t pads[2 * GRAPH_MAX_DIMS];
    uint32_t n;
    char mode[16];
    if (lower_inputs(l, 2, e) < 0 || lower_ints(l, 1, pads, &n, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = lower_input(l, 0);
    if (n != 2 * x->n_dims || lower_input(l, 3))
        return lower_refuse(l, e, "%u pads for %u dimensions%s", n, x->n_dims,
                            lower_input(l, 3) ? ", some of which it names" : "");
    for (uint32_t i = 0; i < x->n_dims; i++) {
        if (pads[i] < 0 || pads[i] > UINT32_MAX)
            return lower_refuse(l, e, "pad %lld is out of range", (long long)pads[i]);
        l->out->pad.begin[i] = (uint32_t)pads[i];
    }
    rknn_attr_text(l->node, "mode", "constant", mode, sizeof mode);
    static const char *const modes[] = {"constant", "reflect", "edge"};
    uint32_t m = 0;
    while (m < 3 && strcmp(modes[m], mode) != 0)
        m++;
    if (m == 3)
        return lower_refuse(l, e, "mode \"%s\" is not known", mode);
    l->out->pad.mode = m;
    if (lower_input(l, 2) && !lower_number(l, 2, &l->out->pad.value))
        return lower_refuse(l, e, "its padding value is not a constant");
    l->out->n_inputs = 1;
    return 0;
}

// The place of a text attribute's value among `names`; refuses others.
static int pick(const struct rknn_lowering *l, const char *attr, const char *absent,
                const char *const *names, uint32_t n, uint32_t *ret, struct error *e)
{
    char text[40];
    rknn_attr_text(l->node, attr, absent, text, sizeof text);
    for (*ret = 0; *ret < n; ++*ret)
        if (strcmp(names[*ret], text) == 0)
            return 0;
    return lower_refuse(l, e, "%s \"%s\" is not supported", attr, text);
}

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
static int lower_resize(struct rknn_lowering *l, struct error *e)
{
    static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                              "asymmetric"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    uint32_t c, m, r;
    if (lower_inputs(l, 1, e) < 0 ||
        pick(l, "coordinate_transformation_mode", "half_pixel", coordinates, 4, &c, e) < 0 ||
        pick(l, "mode", "nearest", modes, 3, &m, e) < 0 ||
        pick(l, "nearest_mode", c == COORDINATES_ASYMMETRIC ? "floor" : "round_prefer_floor",
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

// Whether all elements of a 16- or 32-bit constant have this value.
static bool all_are(const struct graph_tensor *t, int32_t value)
{
    size_t size = tensor_type_size(t->type);
    if (!t->constant || t->unpack || (size != 2 && size != 4))
        return false;
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const uint8_t *p = t->data.data + i * size;
        if ((size == 2 ? (int16_t)read_le16(p) : (int32_t)read_le32(p)) != value)
            return false;
    }
    return true;
}

#define FACTOR_ERROR 1e-3 // of a factor that registers hold in 15 bits

// The node's registers hold the factor s_x * s_scale / s_y in 15 bits. If they disagree with the
// tensors' scales, the units were not understood.
static int check_norm_factor(const struct rknn_lowering *l, struct error *e)
{
    uint32_t scale, shift;
    if (!rknn_regs_get(l->regs, DPU_OUT_CVT_SCALE, &scale) ||
        !rknn_regs_get(l->regs, DPU_OUT_CVT_SHIFT, &shift))
        return 0;
    double said = ldexp(scale & 0xffff, -(int)(shift & 0x3f));
    double known = (double)lower_input(l, 0)->scale * (double)lower_input(l, 1)->scale /
                   (double)lower_output(l, 0)->scale;
    if (fabs(said - known) > FACTOR_ERROR * known)
        return lower_refuse(l, e, "its registers multiply by %g where its scales come to %g", said,
                            known);
    return 0;
}

// Scale int16 with a scale of its own, bias int32 without, and neither mean nor variance left.
static int check_integer_norm(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *scale = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    bool known = x->type == TENSOR_INT8 && x->quantized && y->type == TENSOR_INT8 && y->quantized &&
                 scale->type == TENSOR_INT16 && scale->quantized && scale->zp == 0 &&
                 !lower_input(l, 2)->quantized && lower_input(l, 2)->type == TENSOR_INT32;
    if (!known || !all_are(lower_input(l, 3), 0) || !all_are(lower_input(l, 4), 1))
        return lower_refuse(l, e, "in what units its integers are is not known");
    l->out->norm.integer = true;
    return check_norm_factor(l, e);
}

// Inputs: x, scale, bias, mean, variance; all float, or all integers.
static int lower_norm(struct rknn_lowering *l, const char *suffix, struct error *e)
{
    int r = lower_inputs(l, 5, e);
    if (r < 0)
        return r;
    l->out->norm.epsilon = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    for (uint32_t i = 1; i < 5; i++) {
        const struct graph_tensor *t = lower_input(l, i);
        bool real = t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16;
        if (!real)
            return check_integer_norm(l, e) < 0 ? STATUS_MODEL_INVALID
                                                : lower_posts(l, suffix, -1, e);
    }
    return lower_posts(l, suffix, -1, e);
}

// The vendor's layer normalization: over the channels of each pixel (axes 1), or over the whole
// image (axes 1 to 3).
static int lower_ex_norm(struct rknn_lowering *l, struct error *e)
{
    static const char *const modes[] = {"layer", "mean_var", "rms"};
    int64_t axes[GRAPH_MAX_DIMS] = {1};
    uint32_t mode, n = rknn_attr_ints(l->node, "axes", axes, GRAPH_MAX_DIMS);
    if (lower_inputs(l, 1, e) < 0 || pick(l, "mode", "layer", modes, 3, &mode, e) < 0)
        return STATUS_MODEL_INVALID;
    bool pixel = n < 2 && axes[0] == 1;
    if (!pixel && !(n == 3 && axes[0] == 1 && axes[1] == 2 && axes[2] == 3))
        return lower_refuse(l, e, "its axes are neither 1 nor 1, 2, 3");
    l->out->n_inputs = l->n_inputs < 3 ? l->n_inputs : 3;
    l->out->axis = 1;
    l->out->layer_norm = (struct graph_layer_norm){
        .epsilon = (float)rknn_attr_float(l->node, "epsilon", 1e-5),
        .image = pixel ? NORM_PIXELS : NORM_IMAGES,
        .rms = mode == 2,
    };
    return 0;
}

static int lower_glu(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : lower_axis(l, 1, e);
}

// A third input is added to the product, or multiplied with it (c_type "mul").
static int lower_ex_mat_mul(struct rknn_lowering *l, struct error *e)
{
    char form[16];
    rknn_attr_text(l->node, "c_type", "add", form, sizeof form);
    l->out->multiply = strcmp(form, "mul") == 0;
    if (!l->out->multiply && strcmp(form, "add") != 0)
        return lower_refuse(l, e, "c_type \"%s\" is not known", form);
    bool third = l->out->multiply || lower_input(l, 2);
    return lower_inputs(l, third ? 3 : 2, e);
}

static int lower_mat_mul(struct rknn_lowering *l, struct error *e)
{
    l->out->product.alpha = 1;
    return lower_inputs(l, 2, e);
}

// Inputs: image and grid [N, H, W, 2] of positions from -1 to 1.
static int lower_grid_sample(struct rknn_lowering *l, struct error *e)
{
    static const char *const modes[] = {"bilinear", "nearest"};
    static const char *const outside[] = {"zeros", "border", "reflection"};
    uint32_t m, o;
    if (lower_inputs(l, 2, e) < 0 || pick(l, "mode", "bilinear", modes, 2, &m, e) < 0 ||
        pick(l, "padding_mode", "zeros", outside, 3, &o, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->grid.align_corners = rknn_attr_int(l->node, "align_corners", 0) != 0;
    l->out->grid.nearest = m == 1;
    l->out->grid.outside = o;
    return 0;
}

// K follows from the output's shape.
static int lower_top_k(struct rknn_lowering *l, struct error *e)
{
    l->out->largest = rknn_attr_int(l->node, "largest", 1) != 0;
    return lower_last_axis(l, e);
}

static int lower_gather(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 2, e);
    if (r == 0)
        r = lower_axis(l, 0, e);
    bool table = r == 0 && lower_input(l, 0)->constant && l->out->op == GRAPH_GATHER;
    return table ? lower_gather_from_table(l, e) : r;
}

// Operators "cst...": the user's program or plugin computes them, with whatever inputs they have.
static int lower_custom(struct rknn_lowering *l, const char *suffix, struct error *e)
{
    (void)l;
    (void)suffix;
    (void)e;
    return 0;
}

// ---- the tables ----

// Found by the longest name that the node's operator starts with; what follows is fused into it.
static const struct fusing {
    const char *name;
    enum graph_op op;
    int (*lower)(struct rknn_lowering *l, const char *suffix, struct error *e);
} fusing[] = {
    {"Conv", GRAPH_CONV, lower_conv},
    {"ConvTranspose", GRAPH_CONV_TRANSPOSE, lower_conv},
    {"MaxPool", GRAPH_MAX_POOL, lower_pool},
    {"GlobalMaxPool", GRAPH_MAX_POOL, lower_pool},
    {"AveragePool", GRAPH_AVERAGE_POOL, lower_pool},
    {"GlobalAveragePool", GRAPH_AVERAGE_POOL, lower_pool},
    {"Add", GRAPH_ADD, lower_arithmetic},
    {"Sub", GRAPH_SUB, lower_arithmetic},
    {"Mul", GRAPH_MUL, lower_arithmetic},
    {"Div", GRAPH_DIV, lower_arithmetic},
    {"Pow", GRAPH_POW, lower_arithmetic},
    {"Mod", GRAPH_MOD, lower_arithmetic},
    {"Max", GRAPH_MAX, lower_arithmetic},
    {"Min", GRAPH_MIN, lower_arithmetic},
    {"PRelu", GRAPH_PRELU, lower_two},
    {"BatchNormalization", GRAPH_BATCH_NORM, lower_norm},
    {"cst", GRAPH_CUSTOM, lower_custom},
};

// Found by their whole names.
static const struct {
    const char *name;
    enum graph_op op;
    int (*lower)(struct rknn_lowering *l, struct error *e);
} operators[] = {
    {"Concat", GRAPH_CONCAT, lower_concat},
    {"Split", GRAPH_SPLIT, lower_split},
    {"Slice", GRAPH_SLICE, lower_slice},
    {"Pad", GRAPH_PAD, lower_pad},
    {"Expand", GRAPH_EXPAND, lower_one},
    {"Reshape", GRAPH_RESHAPE, lower_one},
    {"Flatten", GRAPH_RESHAPE, lower_one},
    {"Squeeze", GRAPH_RESHAPE, lower_one},
    {"Unsqueeze", GRAPH_RESHAPE, lower_one},
    {"Identity", GRAPH_RESHAPE, lower_one},
    {"Transpose", GRAPH_TRANSPOSE, lower_transpose},
    {"Resize", GRAPH_RESIZE, lower_resize},
    {"LayerNormalization", GRAPH_LAYER_NORM, lower_layer_norm},
    {"exLayerNorm", GRAPH_LAYER_NORM, lower_layer_norm},
    {"exNorm", GRAPH_LAYER_NORM, lower_ex_norm},
    {"exGlu", GRAPH_GLU, lower_glu},
    {"exSoftmax13", GRAPH_SOFTMAX, lower_last_axis},
    {"Softmax", GRAPH_SOFTMAX, lower_softmax},
    {"MatMul", GRAPH_MAT_MUL, lower_mat_mul},
    {"ReduceMean", GRAPH_REDUCE_MEAN, lower_mean},
    {"ArgMax", GRAPH_ARG_MAX, lower_argmax},
    {"exDataConvert", GRAPH_CONVERT, lower_one},
    {"Cast", GRAPH_CONVERT, lower_cast},
    {"exMatMul", GRAPH_EX_MAT_MUL, lower_ex_mat_mul},
    {"GridSample", GRAPH_GRID_SAMPLE, lower_grid_sample},
    {"TopK", GRAPH_TOP_K, lower_top_k},
    {"Gather", GRAPH_GATHER, lower_gather},
    {"GatherElements", GRAPH_GATHER_ELEMENTS, lower_gather},
};

// "ConvTranspose..." begins with "Conv" too: the longest name counts.
static const struct fusing *find_fusing(const char *name)
{
    const struct fusing *best = NULL;
    size_t length = 0;
    for (size_t i = 0; i < sizeof fusing / sizeof *fusing; i++) {
        size_t n = strlen(fusing[i].name);
        if (n <= length || strncmp(name, fusing[i].name, n) != 0)
            continue;
        best = &fusing[i];
        length = n;
    }
    return best;
}

int lower_node(struct rknn_lowering *l, struct error *e)
{
    const char *name = l->node->op;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(name, operators[i].name) == 0) {
            l->out->op = operators[i].op;
            return operators[i].lower(l, e);
        }
    if (lower_is_activation(name)) {
        l->out->op = GRAPH_UNARY;
        return lower_unary(l, e);
    }
    const struct fusing *f = find_fusing(name);
    if (!f)
        return lower_ref(l, e);
    l->out->op = f->op;
    return f->lower(l, name + strlen(f->name), e);
}
