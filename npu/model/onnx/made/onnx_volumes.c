// Convolutions and pools of volumes ([N, C, depth, height, width]) as those of images, which have
// kernels.
//
//   Conv            each output's lines of depth side by side as channels: [depth * N, lines * C]
//   ConvTranspose   whose windows do not overlap in depth: each line of its kernel has channels of
//                   its own, which are put one behind the other
//   pools           over height and width, then over depth, since both are done for themselves
//
// What is not of these forms stays with the reference operators (ops/onnx_window.c).
#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

#define SPATIAL   3
#define MAX_LINES 32 // of a kernel's depth
#define MAX_ATTRS 8

// What a node's attributes say of depth.
struct depth {
    int64_t kernel, stride, dilation, pads[2]; // pads: as said; not with auto_pad
};

// NULL: the node has no such attribute.
static const struct onnx_attr *volume_attribute(const struct onnx_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0)
            return &n->attrs[i];
    return NULL;
}

// The numbers of an attribute; false: they are not as many, or not from `least` to 65535.
static bool volume_numbers(const struct onnx_node *n, const char *name, uint32_t count,
                           int64_t least, int64_t otherwise, int64_t *dst)
{
    const struct onnx_attr *a = volume_attribute(n, name);
    for (uint32_t i = 0; i < count; i++)
        dst[i] = otherwise;
    if (!a)
        return true;
    for (uint32_t i = 0; i < count && a->ints.n == count; i++) {
        dst[i] = a->ints.items[i];
        if (dst[i] < least || dst[i] > 65535)
            return false;
    }
    return a->ints.n == count;
}

// What is known of an input while the node is still to be lowered. NULL: nothing.
static const struct graph_tensor *volume_input(const struct onnx_lowering *l,
                                               const struct onnx_node *n, uint32_t i)
{
    int32_t t = i < n->n_inputs ? onnx_names_find(l->names, n->inputs[i]) : -1;
    return t < 0 ? NULL : &l->g->tensors[t];
}

// What windows are in depth. False: attributes are not of three dimensions, or windows have more
// lines than are worth a copy each. w: the weight, whose size counts; NULL: a pool.
static bool take_depth(const struct onnx_node *n, const struct graph_tensor *w, struct depth *d)
{
    int64_t kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], pads[2 * SPATIAL];
    bool fits = volume_numbers(n, "kernel_shape", SPATIAL, 1, 0, kernel) &&
                volume_numbers(n, "strides", SPATIAL, 1, 1, stride) &&
                volume_numbers(n, "dilations", SPATIAL, 1, 1, dilation) &&
                volume_numbers(n, "pads", 2 * SPATIAL, 0, 0, pads);
    for (uint32_t i = 0; i < SPATIAL && fits && w; i++) {
        fits = !kernel[i] || kernel[i] == w->dims[2 + i];
        kernel[i] = w->dims[2 + i];
    }
    *d = (struct depth){kernel[0], stride[0], dilation[0], {pads[0], pads[SPATIAL]}};
    return fits && d->kernel >= 1 && d->kernel <= MAX_LINES;
}

// Whether windows follow each other in depth, as they do where images are doubled.
static bool is_apart(const struct onnx_node *n, const struct depth *d)
{
    const struct onnx_attr *groups = volume_attribute(n, "group");
    int64_t more[SPATIAL];
    return d->kernel == d->stride && d->dilation == 1 && !d->pads[0] && !d->pads[1] &&
           volume_numbers(n, "output_padding", SPATIAL, 0, 0, more) && !more[0] &&
           !volume_attribute(n, "output_shape") && !volume_attribute(n, "auto_pad") &&
           (!groups || groups->i == 1);
}

bool onnx_is_volume(const struct onnx_lowering *l, const struct onnx_node *n)
{
    const struct graph_tensor *x = volume_input(l, n, 0), *w = NULL;
    struct depth d;
    if (l->f->opset < 11 || !x || x->n_dims != SPATIAL + 2 || !x->n_elems || x->constant ||
        x->type != TENSOR_FLOAT32 || n->n_outputs != 1)
        return false;
    if (strstr(n->op, "Pool"))
        return take_depth(n, NULL, &d);
    w = volume_input(l, n, 1);
    return w && w->n_dims == SPATIAL + 2 && w->n_elems && w->type == TENSOR_FLOAT32 &&
           take_depth(n, w, &d) && (strcmp(n->op, "Conv") == 0 || is_apart(n, &d));
}

// ---- the node's attributes, for images ----

static const char lists[] = "kernel_shape strides dilations pads output_padding";

// Of a list the numbers of height and width, or, with `depth`, those of depth as of height, and of
// width what does nothing.
static void image_list(struct onnx_maker *m, bool depth, struct onnx_attr *a)
{
    const uint32_t ends = a->ints.n / SPATIAL; // 1, or 2 for pads
    int64_t *v = pool_alloc(&m->l->g->pool, 4, sizeof *v);
    if (!v)
        onnx_made_fail(m, error_no_memory(m->e, "the graph", 4 * sizeof *v));
    for (uint32_t k = 0; v && k < ends; k++) {
        v[2 * k] = a->ints.items[SPATIAL * k + !depth];
        v[2 * k + 1] = depth ? strcmp(a->name, "pads") != 0 : a->ints.items[SPATIAL * k + 2];
    }
    a->ints.items = v;
    a->ints.n = 2 * ends;
}

static uint32_t image_attributes(struct onnx_maker *m, bool depth, struct onnx_attr *dst)
{
    if (m->of->n_attrs > MAX_ATTRS) {
        onnx_made_refuse(m, "it has too many attributes");
        return 0;
    }
    for (uint32_t i = 0; i < m->of->n_attrs; i++) {
        dst[i] = m->of->attrs[i];
        if (onnx_has_word(lists, dst[i].name))
            image_list(m, depth, &dst[i]);
    }
    return m->of->n_attrs;
}

// ---- convolutions ----

static const char *volume_reshaped(struct onnx_maker *m, const char *x, const char *out, uint32_t n,
                                   const int64_t *dims)
{
    return onnx_step_reshaped(m, x, dims, n, out);
}

// Padding of depth: `pads`, or what auto_pad says; of an odd number of lines one more is behind, or
// with SAME_LOWER in front, as ops/onnx_window.c has it.
static void pad_depth(struct onnx_maker *m, int64_t size, struct depth *d)
{
    const int64_t outs = (size + d->stride - 1) / d->stride;
    const int64_t reach = d->dilation * (d->kernel - 1) + 1;
    int64_t all = (outs - 1) * d->stride + reach - size;
    m->l->node = m->of;
    const bool lower = onnx_text_is(m->l, "auto_pad", "SAME_LOWER", "NOTSET");
    if (lower || onnx_text_is(m->l, "auto_pad", "SAME_UPPER", "NOTSET")) {
        all = all > 0 ? all : 0;
        d->pads[0] = lower ? all - all / 2 : all / 2;
        d->pads[1] = all - d->pads[0];
    } else if (onnx_text_is(m->l, "auto_pad", "VALID", "NOTSET")) {
        d->pads[0] = d->pads[1] = 0;
    }
}

// Image k of the lines of depth that a window has: every `stride`-th of the padded ones, which come
// first among dimensions, as [outs * N, groups, C / groups, height * width].
static const char *line_of_depth(struct onnx_maker *m, const char *x, const struct depth *d,
                                 int64_t k, int64_t outs, const int64_t dims[4])
{
    const int64_t first = k * d->dilation;
    x = onnx_step_sliced(m, x, 0, first, first + (outs - 1) * d->stride + 1, d->stride);
    return volume_reshaped(m, x, NULL, 4, dims);
}

// All lines of the kernel side by side: channels of a group in the order line, channel, which is
// that of flat_weight().
static const char *joined_lines(struct onnx_maker *m, const char *x, const struct depth *d,
                                int64_t outs, const int64_t dims[4])
{
    const struct onnx_attr axis = {.name = "axis", .i = 2};
    const char *all = NULL;
    for (int64_t k = 0; k < d->kernel && m->r == 0;) {
        const char *in[ONNX_STEP_INPUTS + 1] = {all};
        uint32_t n = all != NULL;
        for (; n < ONNX_STEP_INPUTS && k < d->kernel; k++)
            in[n++] = line_of_depth(m, x, d, k, outs, dims);
        all = n == 1 ? in[0] : onnx_step(m, "Concat", in, NULL, &axis, 1);
    }
    return all ? all : "";
}

// [O, C / groups, lines, height, width] as [O, lines * C / groups, height, width].
static const char *flat_weight(struct onnx_maker *m, const char *w)
{
    static const int64_t perm[] = {0, 2, 1, 3, 4};
    const struct graph_tensor *t = onnx_made_tensor(m, w);
    if (!t)
        return "";
    const int64_t dims[] = {t->dims[0], (int64_t)t->dims[2] * t->dims[1], t->dims[3], t->dims[4]};
    return volume_reshaped(m, onnx_step_transposed(m, w, perm, 5, NULL), NULL, 4, dims);
}

// With zeros in front of the first image and behind the last one.
static const char *padded_volume(struct onnx_maker *m, const char *x, const struct depth *d)
{
    const int64_t pads[10] = {[2] = d->pads[0], [7] = d->pads[1]};
    return d->pads[0] || d->pads[1] ? onnx_step_two(m, "Pad", x, onnx_step_ints(m, pads, 10), NULL)
                                    : x;
}

// The images of all lines of depth, [depth, N, C, height, width], in the order of the output.
static void give_volume(struct onnx_maker *m, const char *y, int64_t depth, int64_t batch)
{
    static const int64_t perm[] = {1, 2, 0, 3, 4};
    const struct graph_tensor *t = onnx_made_tensor(m, y);
    if (!t)
        return;
    const int64_t dims[] = {depth, batch, t->dims[1], t->dims[2], t->dims[3]};
    onnx_step_transposed(m, volume_reshaped(m, y, NULL, 5, dims), perm, 5, onnx_made_output(m, 0));
}

// One image for each of the output's lines of depth. What its windows see of depth are channels.
static int make_conv(struct onnx_maker *m, const struct graph_tensor *volume, struct depth *d)
{
    static const int64_t perm[] = {2, 0, 1, 3, 4};
    struct onnx_attr attrs[MAX_ATTRS];
    const struct graph_tensor x = *volume;
    const int64_t groups = onnx_made_int(m, "group", 1), batch = x.dims[0];
    pad_depth(m, x.dims[2], d);
    const int64_t room = x.dims[2] + d->pads[0] + d->pads[1] - (d->dilation * (d->kernel - 1) + 1);
    if (groups < 1 || x.dims[1] % groups || room < 0)
        onnx_made_refuse(m, "its groups or its kernel do not fit its image");
    if (m->r < 0)
        return m->r;
    const int64_t outs = room / d->stride + 1, high = x.dims[3], wide = x.dims[4];
    const int64_t line[] = {outs * batch, groups, x.dims[1] / groups, high * wide};
    const int64_t image[] = {outs * batch, d->kernel * x.dims[1], high, wide};
    const char *y = padded_volume(m, onnx_made_input(m, 0), d);
    y = joined_lines(m, onnx_step_transposed(m, y, perm, 5, NULL), d, outs, line);
    y = volume_reshaped(m, y, NULL, 4, image);
    const char *in[] = {y, flat_weight(m, onnx_made_input(m, 1)), onnx_made_input(m, 2)};
    const uint32_t n = image_attributes(m, false, attrs);
    y = onnx_step(m, "Conv", ONNX_IN(in[0], in[1], in[2]), NULL, attrs, n);
    give_volume(m, y, outs, batch);
    return m->r;
}

// A bias for each line of the kernel.
static const char *repeated_bias(struct onnx_maker *m, int64_t times)
{
    const char *b = onnx_made_input(m, 2);
    return b ? onnx_step_two(m, "Tile", b, onnx_step_ints(m, &times, 1), NULL) : NULL;
}

// Weights are [C, O, lines, height, width]. Each image becomes `kernel` images, which lie one
// behind the other, since windows neither overlap nor leave anything out in depth (is_apart()).
static int make_transposed(struct onnx_maker *m, const struct graph_tensor *volume,
                           const struct depth *d)
{
    static const int64_t first[] = {2, 0, 1, 3, 4}, back[] = {1, 3, 0, 2, 4, 5};
    struct onnx_attr attrs[MAX_ATTRS];
    const struct graph_tensor x = *volume;
    const int64_t image[] = {(int64_t)x.dims[2] * x.dims[0], x.dims[1], x.dims[3], x.dims[4]};
    const char *y = onnx_step_transposed(m, onnx_made_input(m, 0), first, 5, NULL);
    const uint32_t n = image_attributes(m, false, attrs);
    y = onnx_step(m, "ConvTranspose",
                  ONNX_IN(volume_reshaped(m, y, NULL, 4, image),
                          flat_weight(m, onnx_made_input(m, 1)), repeated_bias(m, d->kernel)),
                  NULL, attrs, n);
    const struct graph_tensor *t = onnx_made_tensor(m, y);
    if (!t)
        return m->r;
    const int64_t outs = t->dims[1] / d->kernel, high = t->dims[2], wide = t->dims[3];
    const int64_t apart[] = {x.dims[2], x.dims[0], d->kernel, outs, high, wide};
    const int64_t whole[] = {x.dims[0], outs, x.dims[2] * d->kernel, high, wide};
    y = onnx_step_transposed(m, volume_reshaped(m, y, NULL, 6, apart), back, 6, NULL);
    volume_reshaped(m, y, onnx_made_output(m, 0), 5, whole);
    return m->r;
}

// ---- pools ----

// First every image for itself, as channels of one, then lines of depth: the largest of the
// largest, and the mean of means, as all of a window's images count the same pixels.
static int make_pool(struct onnx_maker *m, const struct graph_tensor *volume)
{
    struct onnx_attr attrs[MAX_ATTRS];
    const struct graph_tensor x = *volume;
    const int64_t planes[] = {x.dims[0], (int64_t)x.dims[1] * x.dims[2], x.dims[3], x.dims[4]};
    uint32_t n = image_attributes(m, false, attrs);
    const char *y = volume_reshaped(m, onnx_made_input(m, 0), NULL, 4, planes);
    y = onnx_step(m, m->of->op, ONNX_IN(y), NULL, attrs, n);
    const struct graph_tensor *t = onnx_made_tensor(m, y);
    if (!t)
        return m->r;
    const int64_t high = t->dims[2], wide = t->dims[3];
    const int64_t lines[] = {x.dims[0], x.dims[1], x.dims[2], high * wide};
    n = image_attributes(m, true, attrs);
    y = onnx_step(m, m->of->op, ONNX_IN(volume_reshaped(m, y, NULL, 4, lines)), NULL, attrs, n);
    if (!(t = onnx_made_tensor(m, y)))
        return m->r;
    const int64_t whole[] = {x.dims[0], x.dims[1], t->dims[2], high, wide};
    volume_reshaped(m, y, onnx_made_output(m, 0), 5, whole);
    return m->r;
}

int onnx_make_volume(struct onnx_maker *m)
{
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    const bool pool = strstr(m->of->op, "Pool") != NULL;
    struct depth d;
    if (!x || !take_depth(m->of, pool ? NULL : volume_input(m->l, m->of, 1), &d))
        return m->r;
    return pool                             ? make_pool(m, x)
           : strcmp(m->of->op, "Conv") == 0 ? make_conv(m, x, &d)
                                            : make_transposed(m, x, &d);
}
