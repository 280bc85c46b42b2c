// Resize of forms that kernels do not know, as products with a matrix for each axis: with
// antialias, cut out of the image (tf_crop_and_resize), with half_pixel_symmetric, and of integers.
// A line of the matrix has what the input's places count for one of the output's. The nearest place
// is gathered, so that any type will do.
//
// Positions and weights are ONNX's, in floats as ONNX Runtime computes them; with antialias they
// are those of its UpsampleAntiAlias.
#include <math.h>

#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

// One axis.
struct resample {
    uint32_t in, out;
    float scale, start, end; // start, end: of the part that is cut out
};

struct resampling {
    bool antialias, exclude_outside, cut, symmetric, align, asymmetric, pytorch;
    enum { NEAREST, LINEAR, CUBIC } mode;
    enum graph_nearest_mode nearest;
    float cubic_a, otherwise;
    struct resample axes[GRAPH_MAX_DIMS];
};

static bool attribute_is(const struct onnx_node *n, const char *name, const char *value)
{
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0)
            return n->attrs[i].s.size == strlen(value) &&
                   memcmp(n->attrs[i].s.data, value, strlen(value)) == 0;
    return false;
}

bool onnx_is_resampled(const struct onnx_lowering *l, const struct onnx_node *n)
{
    int32_t x = n->n_inputs ? onnx_names_find(l->names, n->inputs[0]) : -1;
    if (l->f->opset < 11 || x < 0)
        return false;
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, "antialias") == 0 && n->attrs[i].i)
            return true;
    return !onnx_is_float(l->g->tensors[x].type) ||
           attribute_is(n, "coordinate_transformation_mode", "tf_crop_and_resize") ||
           attribute_is(n, "coordinate_transformation_mode", "half_pixel_symmetric");
}

// ---- positions ----

// Where an output's place lies in the input.
static float position(const struct resampling *z, const struct resample *a, uint32_t i)
{
    const float x = (float)i, in = (float)a->in, out = (float)a->out;
    if (z->cut)
        return a->out > 1 ? a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / (out - 1)
                          : 0.5f * (a->start + a->end) * (in - 1);
    if (z->align)
        return a->out > 1 ? x * (in - 1) / (out - 1) : 0;
    if (z->asymmetric)
        return x / a->scale;
    if (z->pytorch && a->out == 1)
        return 0;
    const float plain = (x + 0.5f) / a->scale - 0.5f;
    if (!z->symmetric)
        return plain;
    const float adjustment = out / (a->scale * in);
    return in / 2 * (1 - adjustment) + plain;
}

// The nearest place in the input, as nearest_mode rounds halves.
static int64_t nearest_place(const struct resampling *z, float x, uint32_t n)
{
    const float at = graph_nearest(z->nearest, x);
    return at > 0 ? at < (float)(n - 1) ? (int64_t)at : (int64_t)n - 1 : 0;
}

// Only what is cut out may lie outside of the image: all else is moved to its edge.
static bool is_outside(const struct resampling *z, const struct resample *a, uint32_t i)
{
    const float x = position(z, a, i);
    return z->cut && (x < 0 || x > (float)(a->in - 1));
}

// ---- weights ----

// What a place at this distance counts: a triangle, or Keys' cubic.
static float kernel_at(const struct resampling *z, float x)
{
    const float a = z->cubic_a, d = fabsf(x);
    if (z->mode == LINEAR)
        return d < 1 ? 1 - d : 0;
    return d < 1   ? ((a + 2) * d - (a + 3)) * d * d + 1
           : d < 2 ? ((d - 5) * d + 8) * d * a - 4 * a
                   : 0;
}

// Places outside count for the nearest one inside, or for nothing.
static void add_weight(const struct resampling *z, const struct resample *a, int64_t at, float w,
                       float *line)
{
    const bool outside = at < 0 || at >= (int64_t)a->in;
    if (!outside || !z->exclude_outside)
        line[at < 0 ? 0 : at >= (int64_t)a->in ? (int64_t)a->in - 1 : at] += w;
}

static void divide_by_sum(float *line, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += line[i];
    for (uint32_t i = 0; i < n && sum != 0; i++)
        line[i] /= sum;
}

// With antialias, and where the image becomes smaller, the kernel is as wide as a place of the
// output.
static float squeeze_of(const struct resampling *z, const struct resample *a)
{
    return z->antialias && a->scale < 1 ? a->scale : 1;
}

static float reach_of(const struct resampling *z, const struct resample *a)
{
    return (z->mode == LINEAR ? 1.0f : 2.0f) / squeeze_of(z, a);
}

// Whether places can be counted: parts of an image may be said to begin anywhere, and scales be
// any.
static bool is_near(const struct resampling *z, const struct resample *a)
{
    const float most = 1 << 24, first = position(z, a, 0), last = position(z, a, a->out - 1);
    return fabsf(first) < most && fabsf(last) < most && reach_of(z, a) * (float)a->out < most;
}

// Where the kernel was made wider, weights are divided by their sum.
static void weigh_line(const struct resampling *z, const struct resample *a, uint32_t i,
                       float *line)
{
    const float squeeze = squeeze_of(z, a), reach = reach_of(z, a);
    const float x = position(z, a, i), centre = x + 0.5f;
    int64_t from = (int64_t)floorf(x) - (z->mode == CUBIC), to = from + (z->mode == CUBIC ? 4 : 2);
    if (z->antialias) {
        from = (int64_t)floorf(centre - reach + 0.5f);
        to = (int64_t)floorf(centre + reach + 0.5f);
    }
    for (int64_t at = from; at < to; at++)
        add_weight(
            z, a, at,
            kernel_at(z, z->antialias ? ((float)at - centre + 0.5f) * squeeze : (float)at - x),
            line);
    if (z->antialias || z->exclude_outside)
        divide_by_sum(line, a->in);
}

// [out, in], as a constant of a new name.
static const char *matrix_of(struct onnx_maker *m, const struct resampling *z,
                             const struct resample *a)
{
    const uint64_t n = (uint64_t)a->out * a->in;
    if (!is_near(z, a))
        onnx_made_refuse(m, "its scales, or the part of its image, are too far out");
    float *v = onnx_made_room(m, n, sizeof *v);
    if (!v)
        return "";
    memset(v, 0, n * sizeof *v);
    for (uint32_t i = 0; i < a->out; i++)
        weigh_line(z, a, i, v + (uint64_t)i * a->in);
    m->l->node = m->of;
    const uint32_t dims[2] = {a->out, a->in};
    const char *name = onnx_made_name(m);
    int32_t t = onnx_constant(m->l, TENSOR_FLOAT32, 2, dims, v, m->e);
    onnx_made_fail(m, t < 0 || m->r < 0 ? t : onnx_names_set(m->l->names, name, t, m->e));
    return name;
}

// ---- what the node says ----

static void take_modes(struct onnx_maker *m, struct resampling *z)
{
    const char *coordinates = "coordinate_transformation_mode";
    struct onnx_lowering *l = m->l;
    l->node = m->of;
    *z = (struct resampling){
        .antialias = onnx_int(l, "antialias", 0) != 0,
        .exclude_outside = onnx_int(l, "exclude_outside", 0) != 0,
        .cut = onnx_text_is(l, coordinates, "tf_crop_and_resize", "half_pixel"),
        .symmetric = onnx_text_is(l, coordinates, "half_pixel_symmetric", "half_pixel"),
        .align = onnx_text_is(l, coordinates, "align_corners", "half_pixel"),
        .asymmetric = onnx_text_is(l, coordinates, "asymmetric", "half_pixel"),
        .pytorch = onnx_text_is(l, coordinates, "pytorch_half_pixel", "half_pixel"),
        .mode = onnx_text_is(l, "mode", "linear", "nearest")  ? LINEAR
                : onnx_text_is(l, "mode", "cubic", "nearest") ? CUBIC
                                                              : NEAREST,
        .cubic_a = onnx_float(l, "cubic_coeff_a", -0.75f),
        .otherwise = onnx_float(l, "extrapolation_value", 0)};
    if (!onnx_nearest_mode(l, "round_prefer_floor", &z->nearest) ||
        (z->mode == NEAREST && !onnx_text_is(l, "mode", "nearest", "nearest")))
        onnx_made_refuse(m, "its mode or nearest_mode is not known");
    bool known = z->cut || z->symmetric || z->align || z->asymmetric || z->pytorch ||
                 onnx_text_is(l, coordinates, "half_pixel", "half_pixel");
    if (!known || !onnx_text_is(l, "keep_aspect_ratio_policy", "stretch", "stretch") ||
        onnx_has_attr(l, "axes") || (z->antialias && (z->mode == NEAREST || z->cut)))
        onnx_made_refuse(m, "its axes, keep_aspect_ratio_policy or coordinates are not supported "
                            "beside its other attributes");
}

// A list of n numbers, whole ones or floats.
static bool take_numbers(struct onnx_maker *m, const char *name, uint32_t n, float *dst)
{
    const struct graph_tensor *t = name ? onnx_made_tensor(m, name) : NULL;
    int64_t whole[GRAPH_MAX_DIMS];
    uint32_t found = 0;
    if (!t || !t->constant || t->n_elems != n)
        return false;
    if (t->type == TENSOR_FLOAT32) {
        graph_tensor_floats(t, dst);
        return true;
    }
    if (n > GRAPH_MAX_DIMS || graph_tensor_ints(t, whole, GRAPH_MAX_DIMS, &found, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        dst[i] = (float)whole[i];
    return true;
}

// Scales are of the whole image, also where a part is cut out of it.
static void take_sizes(struct onnx_maker *m, struct resampling *z, const struct graph_tensor *x)
{
    float v[GRAPH_MAX_DIMS], part[2 * GRAPH_MAX_DIMS] = {0};
    const uint32_t n = x->n_dims;
    const bool sizes = onnx_made_input(m, 3) != NULL;
    bool fits = take_numbers(m, onnx_made_input(m, sizes ? 3 : 2), n, v) &&
                (!z->cut || take_numbers(m, onnx_made_input(m, 1), 2 * n, part));
    for (uint32_t i = 0; i < n && fits; i++) {
        const float in = (float)x->dims[i], out = floorf(sizes ? v[i] : v[i] * in);
        fits = x->dims[i] && out >= 1 && out < 65536;
        z->axes[i] = (struct resample){x->dims[i], fits ? (uint32_t)out : 1,
                                       sizes ? v[i] / in : v[i], part[i], part[n + i]};
        if (z->cut && !sizes && fits) {
            float cut = floorf(v[i] * in * (part[n + i] - part[i]));
            fits = cut >= 1 && cut < 65536;
            z->axes[i].out = fits ? (uint32_t)cut : 1;
        }
    }
    if (!fits)
        onnx_made_refuse(m, "its sizes, scales or roi are no constants that fit its input");
}

// Whether an axis needs no step.
static bool stays(const struct resampling *z, const struct resample *a)
{
    bool outside = false;
    for (uint32_t i = 0; i < a->out; i++)
        outside = outside || is_outside(z, a, i);
    return a->in == a->out && a->scale == 1 && !outside &&
           (!z->cut || (a->start == 0 && a->end == 1));
}

// ---- steps ----

static const char *gathered(struct onnx_maker *m, const struct resampling *z, const char *x,
                            uint32_t axis)
{
    const struct resample *a = &z->axes[axis];
    const struct onnx_attr attr = {.name = "axis", .i = axis};
    int64_t *places = onnx_made_room(m, a->out, sizeof *places);
    if (!places)
        return "";
    for (uint32_t i = 0; i < a->out; i++)
        places[i] = nearest_place(z, position(z, a, i), a->in);
    return onnx_step(m, "Gather", ONNX_IN(x, onnx_step_ints(m, places, a->out)), NULL, &attr, 1);
}

// matrix · x along the axis: what is in front of it are matrices of their own.
static const char *multiplied(struct onnx_maker *m, const struct resampling *z, const char *x,
                              uint32_t axis)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t dims[GRAPH_MAX_DIMS], image[3] = {1, 0, 1};
    if (!t)
        return "";
    const uint32_t n = t->n_dims;
    for (uint32_t i = 0; i < n; i++) {
        dims[i] = t->dims[i];
        if (i != axis)
            image[i < axis ? 0 : 2] *= dims[i];
    }
    image[1] = dims[axis];
    dims[axis] = z->axes[axis].out;
    x = onnx_step_reshaped(m, x, image, 3, NULL);
    x = onnx_step_two(m, "MatMul", matrix_of(m, z, &z->axes[axis]), x, NULL);
    return onnx_step_reshaped(m, x, dims, n, NULL);
}

// Where the axis lies outside of the image stands a number.
static const char *filled(struct onnx_maker *m, const struct resampling *z, const char *x,
                          uint32_t axis, uint32_t n_dims)
{
    const struct resample *a = &z->axes[axis];
    int64_t dims[GRAPH_MAX_DIMS], *out = onnx_made_room(m, a->out, sizeof *out);
    bool any = false;
    if (!out)
        return "";
    for (uint32_t i = 0; i < a->out; i++) {
        out[i] = is_outside(z, a, i);
        any = any || out[i];
    }
    if (!any)
        return x;
    for (uint32_t i = 0; i < n_dims; i++)
        dims[i] = i == axis ? a->out : 1;
    const char *outside = onnx_step_cast(m, onnx_step_ints(m, out, a->out), ONNX_BOOL, NULL);
    outside = onnx_step_reshaped(m, outside, dims, n_dims, NULL);
    return onnx_step(m, "Where", ONNX_IN(outside, onnx_step_like(m, z->otherwise, x), x), NULL,
                     NULL, 0);
}

// Resize(x, part, scales, sizes)
int onnx_make_resample(struct onnx_maker *m)
{
    struct resampling z;
    const char *x = onnx_made_input(m, 0);
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    onnx_made_allow(m,
                    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
                    "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
                    4);
    take_modes(m, &z);
    if (!t || m->r < 0)
        return m->r;
    take_sizes(m, &z, t);
    const uint32_t n_dims = t->n_dims;
    if (z.mode != NEAREST && !onnx_is_float(t->type))
        onnx_made_refuse(m, "it works on floats, and its input is of others");
    for (uint32_t i = 0; i < n_dims && m->r == 0; i++)
        if (!stays(&z, &z.axes[i]))
            x = z.mode == NEAREST ? gathered(m, &z, x, i) : multiplied(m, &z, x, i);
    for (uint32_t i = 0; i < n_dims && m->r == 0; i++)
        x = filled(m, &z, x, i, n_dims);
    onnx_step_one(m, "Identity", x, onnx_made_output(m, 0));
    return m->r;
}
