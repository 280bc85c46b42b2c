// Convolutions of floats by conv_floats.h: weights, lines, and the way through the image.
//
// Each line becomes floats once, in a ring of padded lines. 1x1 convolutions without stride see the
// image as one long line (`flat`), of which a chunk becomes floats at a time:
//
//   image, fp16    | chunk | chunk | …          floats of one chunk stay in the L1 cache
//   blocks           3 2 1   3 2 1              take turns on it, the last channels first
//
// Of several groups each has blocks of its own, which see the image from the group's first channel
// on. They take turns from the first channels on, so that what a group's last vector has too much
// is overwritten by the groups behind it.
//
// Activations that are bounds are applied in registers. Behind others sums are kept, a chunk of
// them, for conv_epilogue().
//
// Tests: test_sim_conv.
#include "npu/sim/conv/floats/conv_floats.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "npu/sim/simd/fp16.h"
#include "npu/sim/simd/interleave/interleave.h"
#include "tensor/transpose.h"

#define CHUNK_FLOATS   8192 // of a chunk's image, and of its sums: both stay in the L1 cache
#define PLANE_HALVES   8192 // of a chunk's image in planes
#define PLANE_MULTIPLE 32   // pixels of such a chunk, so that planes are whole lines of the cache
#define PIXEL_MULTIPLE 48   // pixels of a chunk: what a tile has divides it
#define MAX_PRODUCTS   128  // of an output: behind more of them oneDNN's conversions matter little

const struct floats_level *floats_level(void)
{
#ifdef __aarch64__
    return &conv_floats_neon;
#else
    return kernel_has_avx512() ? &conv_floats_avx512 : kernel_has_avx2() ? &conv_floats_avx2 : NULL;
#endif
}

// Whether some windows lie beside the image: oneDNN's kernels for AVX2 do not take these.
static bool floats_lie_outside(const struct graph_window *w)
{
    bool outside = false;
    for (int i = 0; i < 4; i++)
        outside = outside || w->pad[i] > w->dilation[i % 2] * (w->kernel[i % 2] - 1);
    return outside;
}

// Parts of a tap's channels that are added apart, as oneDNN does; 0: its order is another one.
static size_t floats_parts(const struct conv *c)
{
    const size_t channels = floats_level()->channels;
    if (!channels || c->window.groups > 1)
        return 1;
    return c->ic % channels || floats_lie_outside(&c->window) ? 0 : c->ic / channels;
}

// How many of the first activations are bounds. False: one that is left is oneDNN's, which gives
// other bits.
static bool floats_take_bounds(const struct graph_node *n, struct clamp_bounds *bounds,
                               uint32_t *ret)
{
    uint32_t done = n->n_post;
    while (!clamp_bounds(n->post, done, bounds))
        done--;
    for (uint32_t i = done; !floats_level()->takes_all && i < conv_dnn_fuses(n); i++)
        if (n->post[i].kind != POST_LEAKY_RELU && n->post[i].kind != POST_RELU &&
            n->post[i].kind != POST_CLIP)
            return false;
    *ret = done;
    return true;
}

// Runs of floats that are contiguous, and all of one part.
static size_t floats_segments(const struct conv *c, size_t parts)
{
    return parts == 1 ? conv_segments(c) : parts * c->window.kernel[0] * c->window.kernel[1];
}

static bool floats_are_padded(const struct graph_window *w)
{
    return w->pad[0] || w->pad[1] || w->pad[2] || w->pad[3];
}

// Whether the weights stay fp16. Padding is left to oneDNN, which reads no weights for it.
static bool floats_stay_halves(const struct step *s, const struct conv *c)
{
    return floats_level()->sum_halves && step_input(s, 1)->type == TENSOR_FLOAT16 &&
           conv_pixels(c) <= FLOATS_FEW && !floats_are_padded(&c->window);
}

// Products of an output.
static size_t floats_products(const struct conv *c)
{
    return (size_t)c->ic / c->window.groups * c->window.kernel[0] * c->window.kernel[1];
}

// Whether oneDNN has nothing better. For several groups of a few channels, or of some that are no
// multiple of a vector, it has a product of matrices: that is slower even where most lanes have no
// channel.
static bool floats_pay(const struct step *s, const struct conv *c)
{
    const struct floats_level *level = floats_level();
    bool stored =
        step_input(s, 0)->type != TENSOR_FLOAT32 || step_output(s, 0)->type != TENSOR_FLOAT32;
    if (c->window.groups > 1 && !level->takes_all)
        return level->takes_groups ? !conv_dnn_has_depthwise(s, c) : !conv_dnn_has_kernel(s, c);
    return level->takes_all || (stored && floats_products(c) <= MAX_PRODUCTS) ||
           floats_stay_halves(s, c) || floats_streams(c);
}

bool conv_floats_fits(const struct step *s, const struct conv *c, const float *w)
{
    struct clamp_bounds bounds;
    uint32_t fused;
    size_t n = floats_products(c);
    bool finite = true;
    if (!floats_level() || c->transposed || !floats_pay(s, c) || !floats_parts(c) ||
        floats_segments(c, floats_parts(c)) > FLOATS_SEGMENTS ||
        !floats_take_bounds(s->node, &bounds, &fused))
        return false;
    for (size_t i = 0; i < n * c->oc; i++)
        finite = finite && isfinite(w[i]);
    return finite;
}

// ---- preparation ----

static void floats_describe(const struct step *s, struct conv *c, struct conv_floats *f)
{
    const struct graph_window *w = &c->window;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    bool padded = floats_are_padded(w), all = false;
    floats_take_bounds(s->node, &f->bounds, &c->n_fused);
    all = c->n_fused == s->node->n_post && !y->quantized;
    f->halves = floats_stay_halves(s, c);
    f->streamed = !f->halves && floats_streams(c);
    f->level = floats_level();
    f->image = element_form(x);
    f->to = all && y->type == TENSOR_FLOAT32   ? FLOATS_TO_FLOAT32
            : all && y->type == TENSOR_FLOAT16 ? FLOATS_TO_FP16
                                               : FLOATS_TO_SUMS;
    f->flat = w->kernel[0] * w->kernel[1] == 1 && !padded && w->stride[0] * w->stride[1] == 1 &&
              c->ih == c->oh && c->iw == c->ow;
    f->planes = f->level->sum_planes && f->flat && c->oc == 1 && c->ic > 1 &&
                c->ic <= PLANE_HALVES / PLANE_MULTIPLE && x->type == TENSOR_FLOAT16 &&
                !x->quantized && !f->halves;
    f->there = x->type == TENSOR_FLOAT32 && !x->quantized && !w->pad[1] && !w->pad[3];
    f->parts = f->flat ? 1 : floats_parts(c);
    f->n_segments = floats_segments(c, f->parts);
    f->segment = floats_products(c) / f->n_segments;
    size_t most = f->flat && c->ic > c->oc ? c->ic : c->oc, chunk = CHUNK_FLOATS / most;
    f->chunk = chunk < PIXEL_MULTIPLE ? PIXEL_MULTIPLE : chunk / PIXEL_MULTIPLE * PIXEL_MULTIPLE;
    f->chunk = f->halves && f->chunk > FLOATS_FEW ? FLOATS_FEW : f->chunk;
    if (f->planes)
        f->chunk = PLANE_HALVES / c->ic / PLANE_MULTIPLE * PLANE_MULTIPLE;
}

// Weights of one channel, in the order in which the window's floats lie in its segments, part by
// part.
static void floats_pack_channel(const struct conv *c, const float *w, size_t next, float *to)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    const size_t channels = c->ic / c->window.groups, part = channels / c->floats->parts;
    for (size_t first = 0; first < channels; first += part)
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t i = first; i < first + part; i++, to += next)
                *to = w[i * taps + tap];
}

// The same of `channels` at once, in one part: matrices of what has one input channel, transposed.
static void floats_pack_channels(const struct conv *c, const float *w, size_t channels, size_t next,
                                 float *to)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1], ic = c->ic / c->window.groups;
    const size_t n = ic * taps;
    const ptrdiff_t from_pitch = (ptrdiff_t)(n * sizeof *w);
    if (taps == 1) {
        transpose_matrix(w, from_pitch, to, (ptrdiff_t)(next * sizeof *to), channels, n, sizeof *w);
        return;
    }
    for (size_t i = 0; i < ic; i++)
        transpose_matrix(w + i * taps, from_pitch, to + i * next,
                         (ptrdiff_t)(ic * next * sizeof *to), channels, taps, sizeof *w);
}

// All blocks' weights, each [n][n_vectors of lanes], one behind the other. The memory is zeroed:
// lanes without a channel are multiplied by 0.
static void floats_pack_blocks(const struct conv *c, const float *w, size_t n, float *to)
{
    const struct conv_floats *f = c->floats;
    for (size_t i = 0; i < f->n_blocks; i++) {
        const struct floats_block *b = &f->blocks[i];
        const size_t width = b->n_vectors * f->level->lanes,
                     channels = b->left < width ? b->left : width;
        if (f->parts == 1)
            floats_pack_channels(c, w + b->from * n, channels, width, to);
        for (size_t o = 0; o < channels && f->parts > 1; o++)
            floats_pack_channel(c, w + (b->from + o) * n, width, to + o);
        to += width * n;
    }
}

// The blocks of group g, whose weights begin at `weights`. `size`: bytes of a weight.
static void floats_divide_group(const struct conv *c, size_t g, size_t size, const uint8_t *weights)
{
    const struct conv_floats *f = c->floats;
    const size_t lanes = f->level->lanes, groups = c->window.groups, all = c->oc / groups;
    const size_t vectors = (all + lanes - 1) / lanes, n_blocks = f->n_blocks / groups;
    for (size_t i = 0, from = 0; i < n_blocks; i++) {
        const size_t n_vectors = vectors / n_blocks + (i < vectors % n_blocks);
        const size_t first = g * all + from, width = n_vectors * lanes;
        f->blocks[g * n_blocks + i] = (struct floats_block){.from = first,
                                                            .left = all - from,
                                                            .in = g * (c->ic / groups),
                                                            .n_vectors = n_vectors,
                                                            .inside = first + width <= c->oc,
                                                            .weights = weights,
                                                            .bias = f->bias + first};
        from += width;
        weights += width * floats_products(c) * size;
    }
}

// `bytes`: of all weights.
static int floats_take_memory(struct step *s, const struct conv *c, size_t bytes, uint8_t **ret,
                              struct error *e)
{
    struct conv_floats *f = c->floats;
    *ret = step_alloc(s, bytes, 1);
    f->blocks = step_alloc(s, f->n_blocks, sizeof *f->blocks);
    f->bias = step_alloc(s, c->oc + f->level->lanes * f->level->vectors, sizeof *f->bias);
    if (!*ret || !f->blocks || !f->bias)
        return error_no_memory(e, "a weight", bytes);
    if (c->float_bias)
        memcpy(f->bias, c->float_bias, c->oc * sizeof *f->bias);
    return 0;
}

int conv_floats_prepare(struct step *s, struct conv *c, const float *w, struct error *e)
{
    struct conv_floats *f = c->floats = step_alloc(s, 1, sizeof *c->floats);
    uint8_t *to;
    if (!f)
        return error_no_memory(e, "a step", sizeof *f);
    floats_describe(s, c, f);
    size_t groups = c->window.groups, n = f->n_segments * f->segment;
    size_t vectors = (c->oc / groups + f->level->lanes - 1) / f->level->lanes;
    size_t each = vectors * f->level->lanes * n,
           size = f->halves ? sizeof(uint16_t) : sizeof(float);
    size_t most = f->streamed ? floats_streamed_vectors(c) : f->level->vectors;
    f->n_blocks = (vectors + most - 1) / most * groups;
    cleanup(free_p) float *floats = f->halves ? calloc(groups * each, sizeof *floats) : NULL;
    if (f->halves && !floats)
        return error_no_memory(e, "a weight", groups * each * sizeof *floats);
    int r = floats_take_memory(s, c, groups * each * size, &to, e);
    for (size_t g = 0; g < groups && r == 0; g++)
        floats_divide_group(c, g, size, to + g * each * size);
    if (r == 0)
        floats_pack_blocks(c, w, n, f->halves ? floats : (float *)(void *)to);
    if (r == 0 && f->halves)
        fp16_store(to, 1, groups * each, floats);
    return r;
}

int conv_floats_scratch(struct step *s, struct conv *c, struct error *e)
{
    const struct conv_floats *f = c->floats;
    if (f->streamed)
        return floats_streamed_scratch(s, c, e);
    uint64_t sums = f->to == FLOATS_TO_SUMS ? (uint64_t)f->chunk * c->oc + CONV_LANES : 0;
    int r = step_scratch(s, sums * sizeof(float), &c->sums_at, e);
    if (r == 0 && f->flat)
        return step_scratch(s, f->there ? 0 : (uint64_t)f->chunk * c->ic * sizeof(float),
                            &c->image_lines_at, e);
    return r < 0 ? r
                 : conv_lines_scratch(s, c, conv_lines_size(c, sizeof(float), 0),
                                      &c->image_lines_at, e);
}

// ---- running ----

size_t floats_whole_pixels(const struct conv *c, size_t first)
{
    size_t more = c->floats->level->lanes / c->oc + 1, all = conv_pixels(c);
    return all > first + more ? all - first - more : 0;
}

// One block of `count` pixels, whose outputs are at `to`. Segments are those of the first channel.
static void floats_sum_block(const struct conv *c, const struct floats_block *b,
                             const struct floats_pixels *p, size_t first, size_t count, uint8_t *to)
{
    const struct conv_floats *f = c->floats;
    struct floats_pixels own = *p;
    own.weights = b->weights;
    own.bias = b->bias;
    own.left = b->left;
    own.to = to + b->from * (f->to == FLOATS_TO_FP16 ? sizeof(uint16_t) : sizeof(float));
    if (c->window.groups > 1)
        own.whole = b->inside ? count : 0;
    else
        own.whole = f->to == FLOATS_TO_SUMS ? count : floats_whole_pixels(c, first);
    for (size_t i = 0; i < p->n_segments; i++)
        own.segments[i] += b->in;
    (f->halves ? f->level->sum_halves : f->level->sum)(&own, count, b->n_vectors);
}

// n pixels of the output from `first` on; several blocks take turns on a chunk while its part of
// the image is in the L1 cache.
static void floats_sum_line(const struct step *s, const struct conv *c, struct run *r,
                            struct floats_pixels *p, size_t first, size_t n)
{
    const struct conv_floats *f = c->floats;
    float *sums = run_scratch(r, c->sums_at);
    size_t size = f->to == FLOATS_TO_FP16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t done = 0, count; done < n; done += count) {
        count = n - done < f->chunk ? n - done : f->chunk;
        uint8_t *to = f->to == FLOATS_TO_SUMS
                          ? (uint8_t *)sums
                          : (uint8_t *)run_output(s, r, 0) + (first + done) * c->oc * size;
        uint32_t denormals = f->to == FLOATS_TO_SUMS ? kernel_drop_denormals() : 0;
        // In one group the last channels first: what they write too much is the next pixel's first
        // ones.
        for (size_t i = 0; i < f->n_blocks; i++) {
            size_t at = c->window.groups > 1 ? i : f->n_blocks - 1 - i;
            floats_sum_block(c, &f->blocks[at], p, first + done, count, to);
        }
        if (f->to == FLOATS_TO_SUMS)
            kernel_keep_denormals(denormals);
        for (size_t i = 0; i < p->n_segments; i++)
            p->segments[i] += count * p->pitch;
        if (f->to == FLOATS_TO_SUMS)
            conv_epilogue(s, c, r, sums, first + done, count);
    }
}

// All pixels are one line, of which a chunk at a time becomes planes, [channel][pixel].
static void floats_sum_planes(const struct step *s, const struct conv *c, struct run *r,
                              struct floats_pixels *p, const int8_t *image)
{
    const struct conv_floats *f = c->floats;
    uint16_t *planes = run_scratch(r, c->image_lines_at);
    size_t all = conv_pixels(c), pixel = c->ic * sizeof *planes, pitch = f->chunk * sizeof *planes;
    size_t size = f->to == FLOATS_TO_FP16 ? sizeof(uint16_t) : sizeof(float);
    p->weights = f->blocks->weights;
    p->bias = f->bias;
    for (size_t first = 0, n; first < all; first += n, image += n * pixel) {
        n = all - first < f->chunk ? all - first : f->chunk;
        if (interleave_fits(c->ic, sizeof *planes))
            deinterleave_rows(image, n, c->ic, planes, (ptrdiff_t)f->chunk, sizeof *planes);
        else
            transpose_matrix(image, (ptrdiff_t)pixel, planes, (ptrdiff_t)pitch, n, c->ic,
                             sizeof *planes);
        p->to = f->to == FLOATS_TO_SUMS ? run_scratch(r, c->sums_at)
                                        : (uint8_t *)run_output(s, r, 0) + first * size;
        uint32_t denormals = kernel_drop_denormals();
        f->level->sum_planes(p, planes, f->chunk, n);
        kernel_keep_denormals(denormals);
        if (f->to == FLOATS_TO_SUMS)
            conv_epilogue(s, c, r, p->to, first, n);
    }
}

// A line of the image as floats, with zeros on both sides.
static void floats_load_line(const struct conv_lines *l, const int8_t *x, void *line)
{
    const struct conv *c = l->c;
    float *to = line;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    memset(to, 0, before * sizeof *to);
    elements_load(&c->floats->image, x, n, to + before);
    memset(to + before + n, 0, (size_t)c->window.pad[3] * c->ic * sizeof *to);
}

// Where the window over the first pixel has its segments.
static void floats_find_segments(const struct conv *c, const void *const *rows,
                                 struct floats_pixels *p)
{
    const size_t parts = c->floats->parts, n = p->n_segments / parts;
    const size_t each = n / c->window.kernel[0], apart = (size_t)c->window.dilation[1] * c->ic;
    for (size_t i = 0; i < p->n_segments; i++)
        p->segments[i] =
            (const float *)rows[i % n / each] + i % n % each * apart + i / n * (c->ic / parts);
}

static void floats_sum_lines(const struct step *s, const struct conv *c, struct run *r,
                             struct floats_pixels *p, const int8_t *image)
{
    const struct conv_floats *f = c->floats;
    const void *rows[FLOATS_SEGMENTS];
    struct conv_lines lines =
        conv_lines(c, conv_lines_size(c, sizeof(float), 0), run_scratch(r, c->image_lines_at));
    lines.load = f->there ? NULL : floats_load_line;
    lines.element = tensor_type_size(f->image.type);
    memset(lines.border, 0, lines.size);
    for (uint32_t n = 0; n < c->n; n++) {
        conv_lines_begin(&lines, image + (size_t)n * c->ih * c->iw * c->ic * lines.element);
        for (uint32_t y = 0; y < c->oh; y++) {
            conv_lines_find(&lines, y, rows);
            floats_find_segments(c, rows, p);
            floats_sum_line(s, c, r, p, ((size_t)n * c->oh + y) * c->ow, c->ow);
        }
    }
}

// All pixels are one line, chunk by chunk.
static void floats_sum_flat(const struct step *s, const struct conv *c, struct run *r,
                            struct floats_pixels *p, const int8_t *image)
{
    const struct conv_floats *f = c->floats;
    float *loaded = run_scratch(r, c->image_lines_at);
    size_t all = conv_pixels(c), element = tensor_type_size(f->image.type);
    for (size_t first = 0, n; first < all; first += n, image += n * c->ic * element) {
        n = all - first < f->chunk ? all - first : f->chunk;
        if (!f->there)
            elements_load(&f->image, image, n * c->ic, loaded);
        p->segments[0] = f->there ? (const float *)image : loaded;
        floats_sum_line(s, c, r, p, first, n);
    }
}

void conv_floats_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image)
{
    const struct conv_floats *f = c->floats;
    struct floats_pixels p = {.n_segments = f->n_segments,
                              .segment = f->segment,
                              .pitch = (size_t)c->window.stride[1] * c->ic,
                              .bounds = f->bounds,
                              .channels = c->oc,
                              .fp16 = f->to == FLOATS_TO_FP16};
    // As around oneDNN's kernels: once, since reading what was set before waits for all sums that
    // are under way; but an epilogue is without it.
    const bool once = f->to != FLOATS_TO_SUMS;
    uint32_t denormals = once ? kernel_drop_denormals() : 0;
    if (f->streamed)
        floats_streamed_run(s, c, r, &p, image);
    else if (f->planes)
        floats_sum_planes(s, c, r, &p, image);
    else if (f->flat)
        floats_sum_flat(s, c, r, &p, image);
    else
        floats_sum_lines(s, c, r, &p, image);
    if (once)
        kernel_keep_denormals(denormals);
}
