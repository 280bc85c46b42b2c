// Convolutions of integers with one filter for each channel.
//
// Lines of the image become floats, less their zero point, with zeros for the padding: then a tap
// is one multiplication and addition of whole lanes, whatever the zero points of its weights.
// Below 2^24 floats are exact.
#include "npu/sim/conv.h"

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

// A line with its padding, and what the last lanes read too much.
static size_t line_size(const struct conv *c)
{
    return ((size_t)c->iw + c->window.pad[1] + c->window.pad[3]) * c->ic + CONV_LANES;
}

// As many lines as a window reaches over.
static size_t n_lines(const struct conv *c)
{
    return (size_t)c->window.dilation[0] * (c->window.kernel[0] - 1) + 1;
}

int conv_depthwise_scratch(struct step *s, struct conv *c, struct error *e)
{
    uint64_t sums = (uint64_t)c->ow * c->oc + CONV_LANES, line = line_size(c), lines;
    if (__builtin_mul_overflow(line, n_lines(c) + 1, &lines) || lines > UINT64_MAX / sizeof(float))
        lines = UINT64_MAX / sizeof(float);
    int r = step_scratch(s, sums * sizeof(int32_t), &c->sums_at, e);
    return r < 0 ? r : step_scratch(s, lines * sizeof(float), &c->lines_at, e);
}

KERNEL static void widen(const int8_t *restrict x, int32_t zp, size_t n, float *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(x[i] - zp);
}

static void load_line(const struct conv *c, const int8_t *x, float *line)
{
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    memset(line, 0, before * sizeof *line);
    widen(x, c->x_zp, n, line + before);
    memset(line + before + n, 0, (line_size(c) - before - n) * sizeof *line);
}

// The lines of one image: a ring of those that have been loaded, and one of zeros.
struct lines {
    const struct conv *c;
    const int8_t *image;
    float *ring, *zeros;
    int64_t loaded; // so many
};

// The lines under the window of output line `y`, for each of its rows.
static void find_lines(struct lines *l, uint32_t y, const float **rows)
{
    const struct graph_window *w = &l->c->window;
    size_t size = line_size(l->c), n = n_lines(l->c);
    int64_t first = (int64_t)y * w->stride[0] - w->pad[0];
    for (uint32_t k = 0; k < w->kernel[0]; k++) {
        int64_t at = first + (int64_t)k * w->dilation[0];
        if (at < 0 || at >= l->c->ih) {
            rows[k] = l->zeros;
            continue;
        }
        if (l->loaded < first)
            l->loaded = first;
        for (; l->loaded <= at; l->loaded++)
            load_line(l->c, l->image + l->loaded * l->c->iw * l->c->ic,
                      l->ring + (size_t)l->loaded % n * size);
        rows[k] = l->ring + (size_t)at % n * size;
    }
}

// ---- sums ----

// One line of the output, in units of a pixel, or of the pixels that share lanes.
struct line {
    const float *rows[ROWS_MOST]; // of the image, for each row of the window
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
        const float *x = l->rows[y] + in + o;
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
    struct lines lines = {.c = c, .zeros = run_scratch(r, c->lines_at)};
    describe_line(c, r, &l);
    lines.ring = lines.zeros + line_size(c);
    memset(lines.zeros, 0, line_size(c) * sizeof *lines.zeros);
    for (uint32_t n = 0; n < c->n; n++) {
        lines.image = image + (size_t)n * c->ih * c->iw * c->ic;
        lines.loaded = 0;
        for (uint32_t y = 0; y < c->oh; y++) {
            find_lines(&lines, y, l.rows);
            sum_line(&l);
            if (l.n * l.out < size)
                sum_rest(&l, size > CONV_LANES ? size - CONV_LANES : 0);
            conv_finish(s, c, r, l.sums, ((size_t)n * c->oh + y) * c->ow, c->ow);
        }
    }
}
