// Integer convolutions with int16: packing the weights, and the way through the image. conv_int16.h
// has formula and layout, conv_int16_sum.c the inner loops.
//
// Each line of the image is widened to int16 once, however many windows it is under, and kept in a
// ring of as many lines as a window is high. Sums of a chunk of pixels, all their channels, stay in
// the L1 cache until the epilogue has read them.
//
// Tests: test_sim_conv_AVX2, test_sim_conv_AVX512_CORE; test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_int16.h"

#include <assert.h>

#define MAX_SUMS       4096 // sums of a chunk: they stay in the L1 cache
#define MAX_LINE       4096 // elements of lines that are joined to one
#define PIXEL_MULTIPLE 12   // pixels of a chunk: whole tiles of 6 or 12

bool conv_int16_fits(const struct conv *c)
{
#ifdef __aarch64__
    const bool has_kernel = true;
#else
    const bool has_kernel = dnn_has_avx2();
#endif
    return has_kernel && conv_segments(c) <= INT16_SEGMENTS;
}

// ---- preparation ----

// Where each pixel is a window of its own (1x1, no stride, no padding), lines of the image are
// joined to longer ones: fewer calls, and chunks that are full. Not those of a transposed
// convolution's image, which is still to be made from lines.
static void int16_join_lines(struct conv *c)
{
    const struct graph_window *w = &c->window;
    bool pixel = w->kernel[0] * w->kernel[1] * w->stride[0] * w->stride[1] == 1;
    pixel = pixel && !c->transposed;
    uint32_t lines = pixel && c->ih == c->oh && c->iw == c->ow && !w->pad[1] ? c->oh : 1;
    while (lines > 1 && (c->oh % lines || (uint64_t)lines * c->iw * c->ic > MAX_LINE))
        lines--;
    assert(lines > 0);
    c->ih /= lines;
    c->oh /= lines;
    c->iw *= lines;
    c->ow *= lines;
}

static void int16_describe_window(const struct conv *c, struct conv_int16 *v)
{
    size_t groups = c->window.groups, outputs = c->oc / groups;
    v->n_segments = conv_segments(c);
    v->segment = conv_segment_size(c);
    v->joined = (v->segment + INT16_JOINED - 1) / INT16_JOINED;
    v->n_blocks = groups * ((outputs + CONV_LANES - 1) / CONV_LANES);
    v->chunk = MAX_SUMS / c->oc < PIXEL_MULTIPLE
                   ? PIXEL_MULTIPLE
                   : MAX_SUMS / c->oc / PIXEL_MULTIPLE * PIXEL_MULTIPLE;
}

// Weights of one channel, taps in segments of `together`. The memory is zeroed: the element that an
// odd segment lacks is multiplied by 0.
static void int16_pack_channel(const struct step *s, const struct conv *c, const int8_t *w,
                               size_t o, size_t lanes, int16_t *to)
{
    const struct conv_int16 *v = c->int16;
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1];
    size_t inputs = c->ic / c->window.groups, next = lanes * INT16_JOINED,
           together = v->segment / inputs;
    for (size_t tap = 0; tap < taps; tap++) {
        int16_t *segment = to + tap / together * v->joined * next;
        size_t word = tap % together * inputs;
        int32_t nz = conv_weight_zp(s->node->quant, taps, (uint32_t)o, tap);
        for (size_t i = 0; i < inputs; i++, word++)
            segment[word / INT16_JOINED * next + word % INT16_JOINED] =
                (int16_t)(w[(o * inputs + i) * taps + tap] + nz);
    }
}

static int int16_pack(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    struct conv_int16 *v = c->int16;
    size_t outputs = c->oc / c->window.groups, inputs = c->ic / c->window.groups, from = 0;
    size_t block = v->n_segments * v->joined * CONV_LANES * INT16_JOINED;
    int16_t *to = step_alloc(s, v->n_blocks * block, sizeof *to);
    v->blocks = step_alloc(s, v->n_blocks, sizeof *v->blocks);
    if (!to || !v->blocks)
        return error_no_memory(e, "a weight", v->n_blocks * block * sizeof *to);
    for (size_t i = 0; i < v->n_blocks; i++, to += block) {
        size_t left = outputs - from % outputs, count = left < CONV_LANES ? left : CONV_LANES;
        size_t lanes = count > INT16_LANES ? CONV_LANES : INT16_LANES;
        v->blocks[i] = (struct int16_block){from, count, lanes, from / outputs * inputs, to};
        for (size_t k = 0; k < count; k++)
            int16_pack_channel(s, c, w, from + k, lanes, to + INT16_JOINED * k);
        from += count;
    }
    return 0;
}

int conv_int16_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    c->int16 = step_alloc(s, 1, sizeof *c->int16);
    if (!c->int16)
        return error_no_memory(e, "a step", sizeof *c->int16);
    int16_join_lines(c);
    int16_describe_window(c, c->int16);
    return int16_pack(s, c, w, e);
}

// One element behind a line is read as the second of an odd segment's last pair.
static uint64_t int16_line_size(const struct conv *c)
{
    return conv_lines_size(c, sizeof(int16_t), 1);
}

int conv_int16_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t sums = (uint64_t)c->int16->chunk * c->oc + CONV_LANES;
    int r = step_scratch(s, sums * sizeof(int32_t), &c->sums_at, e);
    return r < 0 ? r : conv_lines_scratch(s, c, int16_line_size(c), &c->lines_at, e);
}

// ---- running ----

KERNEL(void, int16_widen, (const int8_t *restrict x, int32_t zp, size_t n, int16_t *restrict dst),
       (x, zp, n, dst))
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int16_t)(x[i] - zp);
}

static void int16_load_line(const struct conv_lines *l, const int8_t *x, void *line)
{
    const struct conv *c = l->c;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    int16_t *to = line, *behind = to + before + n;
    memset(to, 0, before * sizeof *to);
    int16_widen(x, c->x_zp, n, to + before);
    memset(behind, 0, l->size - (before + n) * sizeof *to);
}

static void int16_find_segments(const struct conv *c, const void *const *rows,
                                struct int16_pixels *p)
{
    size_t each = p->n_segments / c->window.kernel[0];
    size_t apart = (size_t)c->window.dilation[1] * c->ic;
    for (size_t i = 0; i < p->n_segments; i++)
        p->segments[i] = (const int16_t *)rows[i / each] + i % each * apart;
}

static void int16_run_line(const struct step *s, const struct conv *c, struct run *r,
                           struct int16_pixels *p, size_t first)
{
    const struct conv_int16 *v = c->int16;
    int32_t *sums = run_scratch(r, c->sums_at);
    for (size_t done = 0, n; done < c->ow; done += n) {
        n = c->ow - done < v->chunk ? c->ow - done : v->chunk;
        // The last channels first: only theirs, of one group, are fewer than their vectors have.
        for (size_t i = v->n_blocks; i--;)
            conv_int16_sum(p, &v->blocks[i], n, sums + v->blocks[i].from);
        conv_epilogue(s, c, r, sums, first + done, n);
        for (size_t i = 0; i < v->n_segments; i++)
            p->segments[i] += n * p->pitch;
    }
}

void conv_int16_run(const struct step *s, const struct conv *c, struct run *r, const int8_t *image)
{
    const void *rows[INT16_SEGMENTS];
    struct conv_lines lines = conv_lines(c, int16_line_size(c), run_scratch(r, c->lines_at));
    struct int16_pixels p = {.n_segments = c->int16->n_segments,
                             .joined = c->int16->joined,
                             .pitch = (size_t)c->window.stride[1] * c->ic,
                             .channels = c->oc,
                             .overwrites = c->window.groups == 1};
    lines.load = int16_load_line;
    memset(lines.border, 0, lines.size);
    for (uint32_t n = 0; n < c->n; n++) {
        conv_lines_begin(&lines, image + (size_t)n * c->ih * c->iw * c->ic);
        for (uint32_t y = 0; y < c->oh; y++) {
            conv_lines_find(&lines, y, rows);
            int16_find_segments(c, rows, &p);
            int16_run_line(s, c, r, &p, ((size_t)n * c->oh + y) * c->ow);
        }
    }
}
