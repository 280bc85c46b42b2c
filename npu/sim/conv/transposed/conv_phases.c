// Transposed convolutions as convolutions without zeros between the pixels.
//
// op_conv.c describes one over an image with stride - 1 zeros between its pixels, z[s * j] = x[j]:
//   y[o] = Σ_k w[k] * z[o + k - before]                          (of each dimension)
// Only every s-th tap meets a pixel. Which ones depends on the phase p = o mod s alone, so with
// o = s * i + p, and t-th tap of the phase k = s * t + skip[p]:
//   y[s * i + p] = Σ_t w[s * t + skip[p]] * x[i + t + shift[p]]
//   skip[p] = (before - p) mod s,  shift[p] = (p + skip[p] - before) / s
// which is a convolution with a smaller window and stride 1. Of one group, all phases are channels
// of one convolution, whose window covers those of all (taps that a phase has not stand for 0); in
// groups, and of floats if windows differ, each phase is a convolution. Their outputs are then put
// between each other:
//
//   part     pixel (i, j): | phase 0,0 | phase 0,1 | phase 1,0 | phase 1,1 |   oc channels each
//   output   line 2i:      … | pixel 2j | pixel 2j+1 | …   line 2i+1: …
//
// Sums of integers are the same, so outputs are the same as well; floats are added in another
// order. Why it is fast: no products of zeros, of which there are s² - 1 in s² otherwise, and full
// vectors where channels are few.
//
// Tests: test_sim_conv, test_sim_cases.
#include "npu/sim/conv/transposed/conv_phases.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/exec/ops.h"

#define PIECE 16  // bytes that are moved at once
#define LONG  256 // bytes for which a call is worth it

// Phases along one dimension.
struct phase {
    int64_t skip, shift, taps;
};

// Some phases of the output, from `first` on: row after row.
struct conv_part {
    struct step step; // as the whole one's, but for the node and where its output is
    struct graph_node node;
    struct graph_conv_quant quant;
    struct graph_stages stages;
    struct conv conv;
    uint32_t first, n;
};

struct conv_phases {
    uint32_t n;
    struct conv_part *parts;
};

static struct phase phase_of(const struct conv *c, int dim, uint32_t p)
{
    int64_t s = c->stride[dim], before = c->window.pad[dim], k = c->window.kernel[dim];
    int64_t skip = (before - p) % s;
    skip += skip < 0 ? s : 0;
    return (struct phase){skip, (p + skip - before) / s, (k - skip + s - 1) / s};
}

// The window of phases [from, to): from pixel `from` on, `n` taps.
struct reach {
    int64_t from, n;
};

static struct reach reach_of(const struct conv *c, int dim, uint32_t from, uint32_t to)
{
    int64_t first = 0, last = 0;
    for (uint32_t p = from; p < to; p++) {
        struct phase f = phase_of(c, dim, p);
        first = f.shift < first ? f.shift : first;
        last = f.shift + f.taps - 1 > last ? f.shift + f.taps - 1 : last;
    }
    return (struct reach){first, last - first + 1};
}

static bool is_grouped(const struct conv *c)
{
    return c->window.groups > 1;
}

// Lines or columns of a part: as many as the first phase has.
static uint32_t part_size(const struct conv *c, int dim)
{
    uint32_t size = dim ? c->ow : c->oh;
    return (size + c->stride[dim] - 1) / c->stride[dim];
}

static int64_t pad_after(const struct conv *c, int dim, struct reach reach)
{
    return part_size(c, dim) - 1 + reach.n + reach.from - (dim ? c->x_w : c->x_h);
}

// Whether each phase has taps, and its image needs not be cut.
static bool phases_are_windows(const struct conv *c)
{
    for (int dim = 0; dim < 2; dim++) {
        uint32_t s = c->stride[dim];
        for (uint32_t p = 0; p < s; p++) {
            struct reach one = reach_of(c, dim, p, p + 1);
            if (phase_of(c, dim, p).taps < 1 || pad_after(c, dim, one) < 0)
                return false;
        }
        if (pad_after(c, dim, reach_of(c, dim, 0, s)) < 0)
            return false;
    }
    return true;
}

// A tap that stands for 0 is -nz.
static bool zero_fits(const struct graph_conv_quant *q)
{
    for (uint32_t o = 0; o < q->n; o++)
        if (q->nz[o] < -127 || q->nz[o] > 128)
            return false;
    return true;
}

static bool quant_fits(const struct step *s, const struct conv *c)
{
    const struct graph_conv_quant *q = s->node->quant;
    bool depthwise = is_grouped(c) && c->window.groups == c->ic && c->ic == c->oc;
    bool dense = !is_grouped(c) && !q->nz_in_taps && zero_fits(q);
    return !q->sums && q->n == c->oc && !step_input(s, 5) && (depthwise || dense);
}

bool conv_phases_fit(const struct step *s, const struct conv *c)
{
    if (!c->transposed || (c->integer && !quant_fits(s, c)) || c->stride[0] * c->stride[1] == 1 ||
        c->window.dilation[0] * c->window.dilation[1] != 1)
        return false;
    for (uint32_t i = 0; i < s->node->n_post; i++)
        if (s->node->post[i].kind == POST_ADD)
            return false;
    return phases_are_windows(c);
}

// Whether all phases have the same window.
static bool windows_are_alike(const struct conv *c)
{
    for (int dim = 0; dim < 2; dim++) {
        struct reach all = reach_of(c, dim, 0, c->stride[dim]);
        for (uint32_t p = 0; p < c->stride[dim]; p++)
            if (phase_of(c, dim, p).taps != all.n || phase_of(c, dim, p).shift != all.from)
                return false;
    }
    return true;
}

// ---- preparation ----

// Of one part: the phases' rows and columns, and the window that covers them.
struct part_window {
    uint32_t rows, columns; // of phases, from that of the first one on
    struct reach reach[2];
};

static struct part_window part_window(const struct conv *c, const struct conv_part *p)
{
    uint32_t row = p->first / c->stride[1], column = p->first % c->stride[1];
    uint32_t rows = p->n > 1 ? c->stride[0] : 1, columns = p->n > 1 ? c->stride[1] : 1;
    return (struct part_window){
        rows, columns, {reach_of(c, 0, row, row + rows), reach_of(c, 1, column, column + columns)}};
}

// The tap of the whole window that phase `p` has at tap `t` of the part's; -1: none.
static int64_t tap_of(const struct conv *c, int dim, uint32_t p, struct reach reach, int64_t t)
{
    struct phase f = phase_of(c, dim, p);
    int64_t at = t + reach.from - f.shift;
    return at >= 0 && at < f.taps ? at * c->stride[dim] + f.skip : -1;
}

// Weights and the zero points of taps of one phase. `w`: [oc][inputs][kh][kw]; `to` likewise.
static void take_taps(const struct conv *c, const struct graph_conv_quant *q,
                      const struct part_window *v, uint32_t phase, const int8_t *w, int8_t *to,
                      int16_t *to_nz)
{
    size_t inputs = c->ic / c->window.groups, kw = c->window.kernel[1];
    size_t taps = c->window.kernel[0] * kw, n = (size_t)(v->reach[0].n * v->reach[1].n);
    for (size_t i = 0; i < (size_t)c->oc * inputs; i++, w += taps)
        for (size_t t = 0; t < n; t++, to++) {
            size_t o = i / inputs;
            int64_t y = tap_of(c, 0, phase / c->stride[1], v->reach[0], (int64_t)t / v->reach[1].n);
            int64_t x = tap_of(c, 1, phase % c->stride[1], v->reach[1], (int64_t)t % v->reach[1].n);
            bool has = y >= 0 && x >= 0;
            size_t at = has ? (size_t)y * kw + (size_t)x : 0;
            *to = has ? w[at] : (int8_t)-q->nz[o];
            if (q->nz_in_taps) {
                *to = has ? w[at] : 0;
                to_nz[o * n + t] = has ? q->nz[o * taps + at] : 0;
            }
        }
}

// The same of floats.
static void take_float_taps(const struct conv *c, const struct part_window *v, uint32_t phase,
                            const float *w, float *to)
{
    size_t inputs = c->ic / c->window.groups, kw = c->window.kernel[1];
    size_t taps = c->window.kernel[0] * kw, n = (size_t)(v->reach[0].n * v->reach[1].n);
    for (size_t i = 0; i < (size_t)c->oc * inputs; i++, w += taps)
        for (size_t t = 0; t < n; t++, to++) {
            int64_t y = tap_of(c, 0, phase / c->stride[1], v->reach[0], (int64_t)t / v->reach[1].n);
            int64_t x = tap_of(c, 1, phase % c->stride[1], v->reach[1], (int64_t)t % v->reach[1].n);
            *to = y >= 0 && x >= 0 ? w[(size_t)y * kw + (size_t)x] : 0;
        }
}

// The whole bias of an output channel, without its term for the image's zero point.
static int32_t whole_bias(const struct conv *c, const struct graph_conv_quant *q, const int8_t *w,
                          uint32_t o)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t n = taps * (c->ic / c->window.groups);
    int64_t sum = 0;
    for (size_t i = 0; i < n && q->bias_holds_zp; i++)
        sum += w[o * n + i] + conv_weight_zp(q, taps, o, i % taps);
    return (int32_t)(q->bias[o] + c->x_zp * sum);
}

// What belongs to channels, once for each phase. NULL in *to: no memory.
static bool take_quant(struct step *s, const struct conv *c, const struct part_window *v,
                       const int8_t *w, struct conv_part *p)
{
    const struct graph_conv_quant *q = s->node->quant;
    size_t n = (size_t)c->oc * p->n, taps = (size_t)(v->reach[0].n * v->reach[1].n);
    struct graph_conv_quant *to = &p->quant;
    *to = *q;
    to->n = (uint32_t)n;
    to->bias_holds_zp = false;
    to->scale = step_alloc(s, n, sizeof *to->scale);
    to->bias = step_alloc(s, n, sizeof *to->bias);
    to->nz = step_alloc(s, n * (q->nz_in_taps ? taps : 1), sizeof *to->nz);
    int16_t *mul = step_alloc(s, n, sizeof *mul);
    if (!to->scale || !to->bias || !to->nz || !mul)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t o = i % c->oc;
        to->scale[i] = q->scale[o];
        to->bias[i] = i < c->oc ? whole_bias(c, q, w, o) : to->bias[o];
        to->nz[i] = q->nz_in_taps ? 0 : q->nz[o];
        mul[i] = q->stages ? q->stages->mul[o] : 0;
    }
    if (q->stages) {
        p->stages = *q->stages;
        p->stages.mul = mul;
        to->stages = &p->stages;
    }
    return true;
}

static void part_take_sizes(const struct conv *c, const struct part_window *v, struct conv_part *p)
{
    struct graph_window window = {.stride = {1, 1}, .dilation = {1, 1}, .groups = c->window.groups};
    for (int dim = 0; dim < 2; dim++) {
        window.kernel[dim] = (uint32_t)v->reach[dim].n;
        window.pad[dim] = (uint32_t)-v->reach[dim].from;
        window.pad[2 + dim] = (uint32_t)pad_after(c, dim, v->reach[dim]);
    }
    p->conv = (struct conv){.n = c->n,
                            .ic = c->ic,
                            .ih = c->x_h,
                            .iw = c->x_w,
                            .oc = c->oc * p->n,
                            .oh = part_size(c, 0),
                            .ow = part_size(c, 1),
                            .window = window,
                            .integer = c->integer,
                            .x_zp = c->x_zp};
    p->node.window = window;
}

static int prepare_integers(struct step *s, const struct conv *c, const struct part_window *v,
                            const int8_t *w, struct conv_part *p, struct error *e)
{
    size_t inputs = c->ic / c->window.groups;
    size_t each = (size_t)c->oc * inputs * (size_t)(v->reach[0].n * v->reach[1].n);
    cleanup(free_p) int8_t *weights = malloc(each * p->n + 1);
    p->node.quant = &p->quant;
    if (!weights || !take_quant(s, c, v, w, p))
        return error_no_memory(e, "a weight", each * p->n);
    for (uint32_t i = 0; i < p->n; i++)
        take_taps(c, s->node->quant, v, p->first + i, w, weights + i * each, p->quant.nz);
    return conv_prepare_weights(&p->step, &p->conv, weights, e);
}

static int prepare_floats(struct step *s, const struct conv *c, const struct part_window *v,
                          const float *w, struct conv_part *p, struct error *e)
{
    size_t inputs = c->ic / c->window.groups, n = (size_t)c->oc * p->n;
    size_t each = (size_t)c->oc * inputs * (size_t)(v->reach[0].n * v->reach[1].n);
    cleanup(free_p) float *weights = malloc(each * p->n * sizeof *weights + 1);
    p->conv.float_bias = c->float_bias ? step_alloc(s, n, sizeof *p->conv.float_bias) : NULL;
    if (!weights || (c->float_bias && !p->conv.float_bias))
        return error_no_memory(e, "a weight", each * p->n * sizeof *weights);
    for (size_t i = 0; i < n && c->float_bias; i++)
        p->conv.float_bias[i] = c->float_bias[i % c->oc];
    for (uint32_t i = 0; i < p->n; i++)
        take_float_taps(c, v, p->first + i, w, weights + i * each);
    return conv_prepare_floats(&p->step, &p->conv, weights, e);
}

static int prepare_part(struct step *s, const struct conv *c, const void *w, struct conv_part *p,
                        struct error *e)
{
    const struct part_window v = part_window(c, p);
    p->node = *s->node;
    p->node.op = GRAPH_CONV;
    p->step = *s;
    p->step.node = &p->node;
    p->step.state = &p->conv;
    part_take_sizes(c, &v, p);
    uint64_t size = conv_pixels(&p->conv) * p->conv.oc * tensor_type_size(step_output(s, 0)->type);
    int r = step_scratch(&p->step, size + CONV_LANES, &p->step.output_at, e);
    p->step.output_is_scratch = true;
    if (r == 0)
        r = c->integer ? prepare_integers(s, c, &v, w, p, e) : prepare_floats(s, c, &v, w, p, e);
    s->scratch = p->step.scratch;
    return r;
}

int conv_phases_prepare(struct step *s, struct conv *c, const void *w, struct error *e)
{
    uint32_t n = c->stride[0] * c->stride[1];
    struct conv_phases *v = c->phases = step_alloc(s, 1, sizeof *v);
    if (!v)
        return error_no_memory(e, "a step", sizeof *v);
    v->n = is_grouped(c) || (!c->integer && !windows_are_alike(c)) ? n : 1;
    v->parts = step_alloc(s, v->n, sizeof *v->parts);
    if (!v->parts)
        return error_no_memory(e, "a step", v->n * sizeof *v->parts);
    uint64_t start = s->scratch, most = start; // parts are computed one after the other
    for (uint32_t i = 0; i < v->n; i++) {
        v->parts[i].first = i;
        v->parts[i].n = n / v->n;
        s->scratch = start;
        int r = prepare_part(s, c, w, &v->parts[i], e);
        if (r < 0)
            return r;
        most = s->scratch > most ? s->scratch : most;
    }
    s->scratch = most;
    return 0;
}

// ---- running ----

// In pieces, the last of which ends where the block does.
static void move_long_blocks(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step,
                             size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *x = from + i * from_step;
        uint8_t *y = to + i * to_step;
        if (size >= LONG) {
            memcpy(y, x, size);
            continue;
        }
        for (size_t done = 0; done + PIECE < size; done += PIECE)
            memcpy(y + done, x + done, PIECE);
        memcpy(y + size - PIECE, x + size - PIECE, PIECE);
    }
}

// n blocks of `size` bytes.
static void move_blocks(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step,
                        size_t size, size_t n)
{
#define MOVE(bytes)                                                                                \
    for (size_t i = 0; i < n; i++)                                                                 \
        memcpy(to + i * to_step, from + i * from_step, bytes);                                     \
    break
    switch (size < PIECE ? size : PIECE) {
    case 1:
        MOVE(1);
    case 2:
        MOVE(2);
    case 4:
        MOVE(4);
    case 8:
        MOVE(8);
    case PIECE:
        move_long_blocks(from, from_step, to, to_step, size, n);
        break;
    default:
        MOVE(size);
    }
}

// One line of the output from one line of a part: blocks of neighbouring phases.
static void spread_line(const struct conv *c, const struct conv_part *p, size_t pixel,
                        const uint8_t *from, uint8_t *line)
{
    size_t s = c->stride[1], together = p->n > 1 ? s : 1, column = p->first % s;
    size_t left = c->ow - column, blocks = together > 1 ? left / s : (left + s - 1) / s;
    size_t step = p->n * pixel;
    move_blocks(from, step, line + column * pixel, s * pixel, together * pixel, blocks);
    if (together > 1 && left % s)
        memcpy(line + blocks * s * pixel, from + blocks * step, left % s * pixel);
}

static void spread(const struct step *s, const struct conv *c, const struct conv_part *p,
                   const struct run *r)
{
    size_t pixel = c->oc * tensor_type_size(step_output(s, 0)->type);
    size_t line = c->ow * pixel, part_line = part_size(c, 1) * p->n * pixel;
    const uint8_t *from = run_scratch(r, p->step.output_at);
    uint8_t *to = run_output(s, r, 0);
    uint32_t row = p->first / c->stride[1], rows = p->n > 1 ? c->stride[0] : 1;
    uint32_t lines = part_size(c, 0); // kernels may have joined those of p->conv
    for (uint32_t n = 0; n < c->n; n++, to += c->oh * line)
        for (uint32_t i = 0; i < lines; i++, from += part_line)
            for (uint32_t k = 0; k < rows; k++) {
                size_t y = (size_t)i * c->stride[0] + row + k;
                if (y < c->oh)
                    spread_line(c, p, pixel, from + k * c->stride[1] * pixel, to + y * line);
            }
}

int conv_phases_run(const struct step *s, const struct conv *c, struct run *r, struct error *e)
{
    for (uint32_t i = 0; i < c->phases->n; i++) {
        const struct conv_part *p = &c->phases->parts[i];
        int status = op_conv.run(&p->step, r, e);
        if (status < 0)
            return status;
        spread(s, c, p, r);
    }
    return 0;
}
