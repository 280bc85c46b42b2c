// Convolutions by oneDNN: int8 x int8 -> int32 sums, or float x float -> float.
//
// Images are NHWC, as tensors are; weights are reordered once into the order that the primitive
// asks for. An integer primitive subtracts the image's zero point; what else there is (zero points
// of weights, bias, scale) is done by the epilogue. A float primitive adds the bias and applies the
// first activations itself. Integer sums are exact, so nothing is rounded here.
//
// Where an epilogue follows, the output is computed in tiles of lines, so small that the epilogue
// finds the sums (TILE_BYTES) in the L2 cache. Tiles that see as much image and padding share a
// primitive:
//
//   output lines      computed from
//   tile 0            padding above + first lines         its own primitive
//   tile 1, 2, …      lines of the image only             one primitive for all
//   last tile         last lines + padding below          its own primitive
//
// Tests: test_sim_conv_AVX2_VNNI (integers), test_sim_models (floats).
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "npu/sim/conv/conv.h"
#include "npu/sim/simd/sigmoid.h"

// A good part of the L2 cache: the tile's inputs and the weights need some of it too.
#define TILE_BYTES (256 << 10)
#define TILE_KINDS 8

// The part of the image that the lines of a tile are computed from: the convolution's own height
// and vertical padding.
struct dnn_part {
    uint32_t n, in, out, before, after;
};

// The primitives so far, by the part that each computes from.
struct dnn_tiling {
    struct dnn_arg args[4];
    struct dnn_part parts[TILE_KINDS];
    uint32_t calls[TILE_KINDS], n_kinds;
    void *weights;          // as the file has them
    dnn_md *order, *fourth; // of args[2] and [3]
};

static void dnn_tiling_done(struct dnn_tiling *t)
{
    dnn_md_free(t->order);
    dnn_md_free(t->fourth);
}

// What a convolution's primitive is made for: its memory, of which oneDNN chooses the weights'
// order. Owns the descriptors.
struct dnn_shape {
    dnn_md *src, *dst, *weights, *bias;
};

static void dnn_shape_done(struct dnn_shape *d)
{
    dnn_md_free(d->src);
    dnn_md_free(d->dst);
    dnn_md_free(d->weights);
    dnn_md_free(d->bias);
}

// oneDNN 3.7.2 gets floats of images of one channel wrong with AVX512 where a line has one output
// and a stride (docs/decisions/0311). Channels first is the same in memory there, and has other
// kernels.
static dnnl_format_tag_t conv_dnn_image_order(const struct conv *c)
{
    bool wrong = !c->integer && c->ic == 1 && c->ow == 1 && c->window.stride[1] > 1;
    return wrong ? dnnl_nchw : dnnl_nhwc;
}

// False: oneDNN has nothing of these sizes.
static bool dnn_shape_init(struct dnn_shape *d, const struct conv *c, const struct dnn_part *p)
{
    const struct graph_window *w = &c->window;
    dnnl_dim_t g = w->groups;
    dnnl_dims_t src = {p->n, c->ic, p->in, c->iw}, dst = {p->n, c->oc, p->out, c->ow};
    dnnl_dims_t dims = {c->oc, c->ic, w->kernel[0], w->kernel[1]}, bias = {c->oc};
    dnnl_dims_t grouped = {g, c->oc / g, c->ic / g, w->kernel[0], w->kernel[1]};
    dnnl_data_type_t in = c->integer ? dnnl_s8 : dnnl_f32, out = c->integer ? dnnl_s32 : dnnl_f32;
    d->src = dnn_md_new(4, src, in, conv_dnn_image_order(c));
    d->dst = dnn_md_new(4, dst, out, dnnl_nhwc);
    d->weights = dnn_md_new(g > 1 ? 5 : 4, g > 1 ? grouped : dims, in, dnnl_format_tag_any);
    d->bias = dnn_md_new(1, bias, dnnl_f32, dnnl_a);
    return d->src && d->dst && d->weights && d->bias;
}

// The weights as the file has them, in groups or not.
static dnn_md *conv_dnn_plain_weights(const struct conv *c)
{
    const struct graph_window *w = &c->window;
    dnnl_dim_t g = w->groups, o = c->oc / g, i = c->ic / g, h = w->kernel[0], x = w->kernel[1];
    dnnl_dims_t dims = {o, i, h, x}, grouped = {g, o, i, h, x};
    return dnn_md_new(g > 1 ? 5 : 4, g > 1 ? grouped : dims, c->integer ? dnnl_s8 : dnnl_f32,
                      g > 1 ? dnnl_abcde : dnnl_abcd);
}

// The weights in oneDNN's order, in memory of the plan.
static int conv_dnn_place_weights(struct step *s, const struct conv *c,
                                  const_dnnl_primitive_desc_t pd, struct dnn_tiling *t,
                                  struct error *e)
{
    struct dnn_arg *arg = &t->args[2];
    const dnn_md *wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    if (arg->constant && dnnl_memory_desc_equal(arg->md, wanted))
        return 0; // as another tile has them
    cleanup(dnn_md_free_p) dnn_md *plain = conv_dnn_plain_weights(c);
    size_t size = dnnl_memory_desc_get_size(wanted);
    dnn_md_free(t->order);
    arg->md = t->order = dnn_md_copy(wanted);
    arg->constant = step_alloc(s, size, 1);
    if (!arg->constant || !arg->md || !plain)
        return error_no_memory(e, "a weight", size);
    return dnn_reorder(s, plain, t->weights, arg->md, arg->constant, e);
}

// ---- activations ----

static bool conv_dnn_find_eltwise(const struct graph_post *post, dnnl_alg_kind_t *ret)
{
    static const struct {
        enum graph_post_kind kind;
        dnnl_alg_kind_t algorithm;
    } known[] = {{POST_RELU, dnnl_eltwise_relu},        {POST_LEAKY_RELU, dnnl_eltwise_relu},
                 {POST_CLIP, dnnl_eltwise_clip},        {POST_ELU, dnnl_eltwise_elu},
                 {POST_SIGMOID, dnnl_eltwise_logistic}, {POST_SWISH, dnnl_eltwise_swish},
                 {POST_TANH, dnnl_eltwise_tanh}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].kind == post->kind) {
            *ret = known[i].algorithm;
            return true;
        }
    return false;
}

// oneDNN's e^x takes longer than a tile's way through the cache and sigmoid_many().
static bool conv_dnn_is_slow(const struct graph_post *post)
{
    return (post->kind == POST_SIGMOID || post->kind == POST_SWISH) && sigmoid_fits();
}

uint32_t conv_dnn_fuses(const struct graph_node *n)
{
    dnnl_alg_kind_t algorithm;
    uint32_t i = 0;
    while (i < n->n_post && !conv_dnn_is_slow(&n->post[i]) &&
           conv_dnn_find_eltwise(&n->post[i], &algorithm))
        i++;
    return i;
}

static dnnl_status_t conv_dnn_append_activation(dnnl_post_ops_t ops, const struct graph_post *post)
{
    dnnl_alg_kind_t algorithm = dnnl_alg_kind_undef;
    float alpha = post->kind == POST_RELU ? 0 : post->kind == POST_SWISH ? 1 : post->alpha;
    // oneDNN's reference kernels multiply with alpha what is not above 0: NaN of -Inf.
    if (post->kind == POST_RELU && kernel_level() == KERNEL_BASE)
        return dnn_append_eltwise(ops, dnnl_eltwise_clip, 0, INFINITY);
    conv_dnn_find_eltwise(post, &algorithm);
    return dnn_append_eltwise(ops, algorithm, alpha, post->beta);
}

static dnnl_status_t conv_dnn_add_activations(const struct step *s, const struct conv *c,
                                              dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    for (uint32_t i = 0; i < c->n_fused && status == dnnl_success; i++)
        status = conv_dnn_append_activation(ops, &s->node->post[i]);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

// ---- primitives ----

static dnnl_status_t conv_dnn_describe(const struct step *s, const struct conv *c,
                                       const struct dnn_part *p, const struct dnn_shape *d,
                                       const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
    const struct graph_window *w = &c->window;
    const struct dnn_convolution all = {
        .src = d->src,
        .weights = d->weights,
        .bias = c->float_bias ? d->bias : NULL,
        .dst = d->dst,
        .strides = {w->stride[0], w->stride[1]},
        .dilates = {w->dilation[0] - 1, w->dilation[1] - 1},
        .before = {p->before, w->pad[1]},
        .after = {p->after, w->pad[3]},
    };
    return dnn_describe_convolution(dnn_engine(s->plan), &all, attr, ret);
}

static dnnl_status_t conv_dnn_make_primitive(const struct step *s, const struct conv *c,
                                             const struct dnn_part *p, const struct dnn_shape *d,
                                             dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && c->integer && c->x_zp)
        status = dnn_set_src_zero_point(attr, c->x_zp);
    if (status == dnnl_success && c->n_fused)
        status = conv_dnn_add_activations(s, c, attr);
    if (status == dnnl_success)
        status = conv_dnn_describe(s, c, p, d, attr, pd);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

// Whether an output's window lies in padding alone, in lines (0) or columns (1).
static bool conv_dnn_is_hollow(const struct conv *c, int dimension)
{
    const struct graph_window *w = &c->window;
    int64_t in = dimension ? c->iw : c->ih, out = dimension ? c->ow : c->oh;
    for (int64_t o = 0; o < out; o++) {
        int64_t at = o * w->stride[dimension] - w->pad[dimension];
        uint32_t taps = 0;
        for (uint32_t k = 0; k < w->kernel[dimension]; k++, at += w->dilation[dimension])
            taps += at >= 0 && at < in;
        if (!taps)
            return true;
    }
    return false;
}

// oneDNN 2.6 computes some integer convolutions in groups wrongly, whatever the numbers are: by
// matrix products (for example 128 -> 62 channels in 2 groups with a kernel and a padding of 1),
// and depthwise ones of 8 taps where the CPU has AVX-VNNI. oneDNN 3.7.2 does where a window lies in
// padding alone, or ends the process (docs/decisions/0311).
static bool conv_dnn_is_wrong(const struct conv *c, const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    bool groups = c->window.groups > 1 && (strstr(name, "gemm") || c->window.groups == c->ic);
    return c->integer && (groups || conv_dnn_is_hollow(c, 0) || conv_dnn_is_hollow(c, 1));
}

// The primitive of the whole image; NULL: there is none.
static dnnl_primitive_desc_t conv_dnn_whole(const struct step *s, const struct conv *c)
{
    struct dnn_part all = {c->n, c->ih, c->oh, c->window.pad[0], c->window.pad[2]};
    cleanup(dnn_shape_done) struct dnn_shape d = {0};
    dnnl_primitive_desc_t pd;
    bool made =
        dnn_shape_init(&d, c, &all) && conv_dnn_make_primitive(s, c, &all, &d, &pd) == dnnl_success;
    return made ? pd : NULL;
}

bool conv_dnn_is_exact(const struct step *s, const struct conv *c)
{
    dnnl_primitive_desc_t pd = conv_dnn_whole(s, c);
    bool exact = pd && !conv_dnn_is_wrong(c, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return exact;
}

#define NAME_BYTES 64

// What oneDNN calls the primitive of the whole image; "ref" where there is none.
static void conv_dnn_name(const struct step *s, const struct conv *c, char name[NAME_BYTES])
{
    const char *found = "ref";
    dnnl_primitive_desc_t pd = conv_dnn_whole(s, c);
    if (pd)
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &found);
    snprintf(name, NAME_BYTES, "%s", found);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
}

bool conv_dnn_has_depthwise(const struct step *s, const struct conv *c)
{
    char name[NAME_BYTES];
    conv_dnn_name(s, c, name);
    return strstr(name, "dw") != NULL;
}

bool conv_dnn_has_kernel(const struct step *s, const struct conv *c)
{
    char name[NAME_BYTES];
    conv_dnn_name(s, c, name);
    return !strstr(name, "gemm") && !strstr(name, "ref");
}

// ---- tiles ----

// Every window must reach into the image: oneDNN refuses padding that no window needs.
static bool conv_dnn_can_tile(const struct conv *c)
{
    const struct graph_window *w = &c->window;
    uint64_t reach = (uint64_t)w->dilation[0] * (w->kernel[0] - 1);
    return !c->direct && w->pad[0] <= reach && w->pad[2] <= reach;
}

uint32_t conv_tile_lines(const struct conv *c)
{
    uint64_t line = (uint64_t)c->ow * c->oc * sizeof(int32_t), all = (uint64_t)c->n * c->oh;
    uint64_t max = line < TILE_BYTES ? TILE_BYTES / line : 1, n = (c->oh + max - 1) / max;
    if (all <= max)
        return (uint32_t)all;
    return conv_dnn_can_tile(c) ? (uint32_t)((c->oh + n - 1) / n) : c->oh;
}

// The part of the image that the output lines [first, first + n) need; *ret_line is its first line.
static struct dnn_part conv_dnn_find_part(const struct conv *c, uint32_t first, uint32_t n,
                                          uint32_t *ret_line)
{
    const struct graph_window *w = &c->window;
    int64_t begin = (int64_t)first * w->stride[0] - w->pad[0];
    int64_t reach = (int64_t)w->dilation[0] * (w->kernel[0] - 1);
    int64_t end = begin + (int64_t)(n - 1) * w->stride[0] + reach + 1;
    int64_t low = begin < 0 ? 0 : begin, high = end < c->ih ? end : c->ih;
    *ret_line = (uint32_t)low;
    return (struct dnn_part){.n = 1,
                             .in = (uint32_t)(high - low),
                             .out = n,
                             .before = (uint32_t)(low - begin),
                             .after = (uint32_t)(end - high)};
}

// Bias of floats, or zero point of integers where that is an argument.
static bool conv_dnn_has_fourth(const struct conv *c)
{
    return c->float_bias || (DNN_ZERO_POINTS_ARE_ARGUMENTS && c->integer && c->x_zp);
}

static dnn_md *conv_dnn_fourth(const struct conv *c)
{
    return c->integer ? dnn_md_new(1, (dnnl_dims_t){1}, dnnl_s32, dnnl_a)
                      : dnn_md_new(1, (dnnl_dims_t){c->oc}, dnnl_f32, dnnl_a);
}

// The primitive for a part of the image.
static int conv_dnn_add_call(struct step *s, const struct conv *c, const struct dnn_part *p,
                             struct dnn_tiling *t, uint32_t *ret, struct error *e)
{
    cleanup(dnn_shape_done) struct dnn_shape d = {0};
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnn_shape_init(&d, c, p) ? conv_dnn_make_primitive(s, c, p, &d, &pd)
                                                    : dnnl_invalid_arguments;
    if (status != dnnl_success)
        return dnn_error(s, status, "no convolution of these sizes", e);
    t->args[0].md = d.src;
    t->args[1].md = d.dst;
    int r = conv_dnn_is_wrong(c, pd)
                ? step_refuse(s, e, "oneDNN computes a part of its image incorrectly")
                : conv_dnn_place_weights(s, c, pd, t, e);
    if (r == 0)
        r = dnn_add_call(s, pd, t->args, conv_dnn_has_fourth(c) ? 4 : 3, ret, e);
    dnnl_primitive_desc_destroy(pd);
    return r;
}

static int conv_dnn_find_call(struct step *s, const struct conv *c, struct dnn_tiling *t,
                              const struct dnn_part *p, uint32_t *ret, struct error *e)
{
    for (uint32_t i = 0; i < t->n_kinds; i++)
        if (memcmp(&t->parts[i], p, sizeof *p) == 0) {
            *ret = t->calls[i];
            return 0;
        }
    int r = conv_dnn_add_call(s, c, p, t, ret, e);
    if (r == 0 && t->n_kinds < TILE_KINDS) {
        t->parts[t->n_kinds] = *p;
        t->calls[t->n_kinds++] = *ret;
    }
    return r;
}

// All images at once.
static int conv_dnn_add_whole(struct step *s, struct conv *c, struct dnn_tiling *t, struct error *e)
{
    struct dnn_part p = {c->n, c->ih, c->oh, c->window.pad[0], c->window.pad[2]};
    c->n_tiles = 1;
    c->tiles = step_alloc(s, 1, sizeof *c->tiles);
    if (!c->tiles)
        return error_no_memory(e, "tiles", sizeof *c->tiles);
    c->tiles[0].pixels = conv_pixels(c);
    return conv_dnn_add_call(s, c, &p, t, &c->tiles[0].call, e);
}

static int conv_dnn_add_tiles(struct step *s, struct conv *c, struct dnn_tiling *t, struct error *e)
{
    uint32_t lines = conv_tile_lines(c), each = (c->oh + lines - 1) / lines;
    size_t line = (size_t)c->iw * c->ic * (c->integer ? 1 : sizeof(float));
    assert(each > 0);
    c->n_tiles = c->n * each;
    c->tiles = step_alloc(s, c->n_tiles, sizeof *c->tiles);
    if (!c->tiles)
        return error_no_memory(e, "tiles", c->n_tiles * sizeof *c->tiles);
    for (uint32_t i = 0; i < c->n_tiles; i++) {
        uint32_t n = i / each, y = i % each * lines, from = 0;
        uint32_t count = c->oh - y < lines ? c->oh - y : lines;
        struct dnn_part p = {1, c->ih, c->oh, c->window.pad[0], c->window.pad[2]};
        if (each > 1)
            p = conv_dnn_find_part(c, y, count, &from);
        c->tiles[i] = (struct conv_tile){.image = ((size_t)n * c->ih + from) * line,
                                         .first = ((size_t)n * c->oh + y) * c->ow,
                                         .pixels = (size_t)count * c->ow};
        int r = conv_dnn_find_call(s, c, t, &p, &c->tiles[i].call, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int conv_dnn_prepare(struct step *s, struct conv *c, void *weights, struct error *e)
{
    uint64_t input = (uint64_t)s->node->inputs[0], output = (uint64_t)s->node->outputs[0];
    cleanup(dnn_tiling_done) struct dnn_tiling t = {.weights = weights};
    t.args[0] = (struct dnn_arg){.arg = DNNL_ARG_SRC,
                                 .where = c->own_image ? DNN_SCRATCH : DNN_TENSOR,
                                 .at = c->own_image ? c->image_at : input};
    t.args[1] =
        (struct dnn_arg){.arg = DNNL_ARG_DST,
                         .where = c->direct && !s->output_is_scratch ? DNN_TENSOR : DNN_SCRATCH,
                         .at = !c->direct             ? c->sums_at
                               : s->output_is_scratch ? s->output_at
                                                      : output};
    t.args[2] = (struct dnn_arg){.arg = DNNL_ARG_WEIGHTS, .where = DNN_CONSTANT};
    t.args[3] = (struct dnn_arg){.arg = c->integer ? DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC
                                                   : DNNL_ARG_BIAS,
                                 .where = DNN_CONSTANT,
                                 .constant = c->integer ? &c->x_zp : (void *)c->float_bias};
    t.args[3].md = t.fourth = conv_dnn_fourth(c);
    if (!t.fourth)
        return error_no_memory(e, "a convolution", sizeof t);
    // Without an epilogue there is nothing to keep in the cache.
    bool whole = c->direct || conv_tile_lines(c) == (uint64_t)c->n * c->oh;
    return whole ? conv_dnn_add_whole(s, c, &t, e) : conv_dnn_add_tiles(s, c, &t, e);
}
