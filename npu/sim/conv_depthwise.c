// Convolutions of integers with one filter for each channel.
//
// Lines of the image become floats, less their zero point, with zeros for the padding: then a tap
// is one multiplication and addition of whole lanes, whatever the zero points of its weights.
// Below 2^24 floats are exact.
#include "npu/sim/conv_lines.h"

#define TOGETHER   8 // pixels of the output
#define EXACT_MOST (1 << 24)
#define X_MOST     255 // of an int8 less its zero point
#define ROWS_MOST  (EXACT_MOST / (128 * X_MOST))

typedef float lanes_f32 __attribute__((vector_size(CONV_LANES * 4), aligned(4), may_alias));
typedef int32_t lanes_i32 __attribute__((vector_size(CONV_LANES * 4), aligned(4), may_alias));

bool conv_depthwise_fits(const struct step *s)
{
    const struct graph_window *w = &s->node->window;
    const struct graph_conv_quant *q = s->node->quant;
    uint64_t taps = (uint64_t)w->kernel[0] * w->kernel[1];
    int32_t most = 0;
    for (uint64_t i = 0; i < (q->nz_in_taps ? q->n * taps : q->n); i++) {
        int32_t nz = q->nz[i] < 0 ? -q->nz[i] : q->nz[i];
        most = nz > most ? nz : most;
    }
    return taps <= ROWS_MOST && taps * (uint64_t)(most + 128) * X_MOST < EXACT_MOST;
}

// Channels are few: then lanes hold several pixels, which follow each other with stride 1.
static bool shares_lanes(const struct conv *c)
{
    return c->oc < CONV_LANES && CONV_LANES % c->oc == 0 && c->window.stride[1] == 1;
}

static size_t padded_channels(const struct conv *c)
{
    return (c->oc + CONV_LANES - 1) / CONV_LANES * CONV_LANES;
}

int conv_depthwise_prepare(struct step *s, struct conv *c, const int8_t *w, struct error *e)
{
    size_t taps = (size_t)c->window.kernel[0] * c->window.kernel[1], padded = padded_channels(c);
    c->taps = step_alloc(s, taps * padded, sizeof *c->taps);
    if (!c->taps)
        return error_no_memory(e, "a weight", taps * padded * sizeof *c->taps);
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t i = 0; i < padded; i++) {
            if (i >= c->oc && !shares_lanes(c))
                break;
            uint32_t o = (uint32_t)(i % c->oc);
            int32_t nz = conv_nz(s->node->quant, taps, o, tap);
            c->taps[tap * padded + i] = (float)(w[o * taps + tap] + nz);
        }
    return 0;
}

// ---- lines of the image as floats ----

static uint64_t line_size(const struct conv *c)
{
    return conv_lines_size(c, sizeof(float), CONV_LANES);
}

int conv_depthwise_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t sums = (uint64_t)c->ow * c->oc + CONV_LANES;
    int r = step_scratch(s, sums * sizeof(int32_t), &c->sums_at, e);
    return r < 0 ? r : conv_lines_scratch(s, c, line_size(c), &c->lines_at, e);
}

KERNEL static void widen(const int8_t *restrict x, int32_t zp, size_t n, float *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(x[i] - zp);
}

static void load_line(const struct conv_lines *l, const int8_t *x, void *line)
{
    float *to = line;
    const struct conv *c = l->c;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    memset(to, 0, before * sizeof *to);
    widen(x, c->x_zp, n, to + before);
    memset(to + before + n, 0, l->size - (before + n) * sizeof *to);
}

// ---- sums ----

// One line of the output, in units of a pixel, or of the pixels that share lanes.
struct line {
    const void *rows[ROWS_MOST]; // of the image, floats, for each row of the window
    const float *taps;
    size_t n_rows, n_columns; // of the window
    size_t column, tap;       // elements between its columns, and between taps
    size_t n, in, out;        // units; elements between neighbours
    int32_t *sums;
};

// The sums of n neighbours, CONV_LANES elements each.
static inline __attribute__((always_inline)) void sum_lanes(const struct line *l, size_t in,
                                                            size_t out, size_t o, const int n)
{
    lanes_f32 sums[TOGETHER] = {0};
    const float *taps = l->taps + o;
    for (size_t y = 0; y < l->n_rows; y++) {
        const float *x = (const float *)l->rows[y] + in + o;
        for (size_t k = 0; k < l->n_columns; k++, x += l->column, taps += l->tap)
            for (int i = 0; i < n; i++)
                sums[i] += *(const lanes_f32 *)(x + (size_t)i * l->in) * *(const lanes_f32 *)taps;
    }
    for (int i = 0; i < n; i++)
        *(lanes_i32 *)(l->sums + out + o + (size_t)i * l->out) =
            __builtin_convertvector(sums[i], lanes_i32);
}

// The last lanes of many channels are moved back so that they end where the channels end. Those of
// few write too much, which is overwritten by the next unit.
static inline __attribute__((always_inline)) void sum_units(const struct line *l, size_t first,
                                                            const int n)
{
    size_t o = 0;
    for (; o + CONV_LANES <= l->out; o += CONV_LANES)
        sum_lanes(l, first * l->in, first * l->out, o, n);
    if (o < l->out)
        sum_lanes(l, first * l->in, first * l->out, o ? l->out - CONV_LANES : 0, n);
}

// Likewise the last units.
KERNEL static void sum_line(const struct line *l)
{
    size_t i = 0;
    for (; i + TOGETHER <= l->n; i += TOGETHER)
        sum_units(l, i, TOGETHER);
    if (i < l->n && l->n >= TOGETHER)
        sum_units(l, l->n - TOGETHER, TOGETHER);
    else
        for (; i < l->n; i++)
            sum_units(l, i, 1);
}

KERNEL static void sum_rest(const struct line *l, size_t at)
{
    sum_lanes(l, at, at, 0, 1);
}

static void describe_line(const struct conv *c, struct run *r, struct line *l)
{
    const struct graph_window *w = &c->window;
    l->taps = c->taps;
    l->n_rows = w->kernel[0];
    l->n_columns = w->kernel[1];
    l->column = (size_t)w->dilation[1] * c->ic;
    l->tap = padded_channels(c);
    l->n = c->ow;
    l->in = (size_t)w->stride[1] * c->ic;
    l->out = c->oc;
    l->sums = run_scratch(r, c->sums_at);
    if (shares_lanes(c)) {
        l->n = (size_t)c->ow * c->oc / CONV_LANES;
        l->in = l->out = CONV_LANES;
    }
}

void conv_depthwise_run(const struct step *s, const struct conv *c, struct run *r,
                        const int8_t *image)
{
    struct line l;
    size_t size = (size_t)c->ow * c->oc;
    struct conv_lines lines = conv_lines(c, line_size(c), run_scratch(r, c->lines_at));
    lines.load = load_line;
    memset(lines.border, 0, lines.size);
    describe_line(c, r, &l);
    for (uint32_t n = 0; n < c->n; n++) {
        conv_lines_begin(&lines, image + (size_t)n * c->ih * c->iw * c->ic);
        for (uint32_t y = 0; y < c->oh; y++) {
            conv_lines_find(&lines, y, l.rows);
            sum_line(&l);
            if (l.n * l.out < size)
                sum_rest(&l, size > CONV_LANES ? size - CONV_LANES : 0);
            conv_finish(s, c, r, l.sums, ((size_t)n * c->oh + y) * c->ow, c->ow);
        }
    }
}
