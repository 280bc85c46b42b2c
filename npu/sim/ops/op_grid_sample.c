// GridSample: y[n, c, i, j] = the image x[n, c] at the point grid[n, i, j] = (x, y) in [-1, 1], of
// the nearest pixel, of the four around it, weighed by their distance, or of sixteen by Keys' cubic
// (a = -0.75).
//
// Where a point's pixels lie (taps) is worked out once for all channels, for some points at a time.
// On floats (plain.h), rounded as elements_store() does. Tested by test_sim_cases_eltwise, _float16
// and _index, and of ONNX by test_onnx_nodes and test_onnx_images.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"

#define POINTS 32 // at a time
#define NONE   (-1)

// Of one point: rows and columns of pixels, and what each of them counts.
struct taps {
    int64_t at[4][4]; // in a plane; NONE: a zero
    float y[4], x[4];
};

struct grid_sample {
    struct plain x, grid, y;
};

static int grid_prepare(struct step *s, struct error *e)
{
    struct grid_sample *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (plain_input(s, 0, &p->x, e) < 0 || plain_input(s, 1, &p->grid, e) < 0 ||
        plain_output(s, 0, &p->y, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = step_input(s, 0), *g = step_input(s, 1), *y = step_output(s, 0);
    if (x->n_dims != 4 || g->n_dims != 4 || y->n_dims != 4 || g->dims[3] != 2 ||
        g->dims[0] != x->dims[0] || y->dims[0] != x->dims[0] || y->dims[1] != x->dims[1] ||
        y->dims[2] != g->dims[1] || y->dims[3] != g->dims[2] || !x->n_elems)
        return step_refuse(s, e, "image, grid and output do not fit together");
    return 0;
}

// Positions beyond an end go back into the image: at the outer pixels' centres with align_corners,
// else at their outer edges.
static float grid_reflected(const struct graph_node *n, float at, uint32_t size)
{
    float low = n->grid.align_corners ? 0 : -0.5f;
    float span = n->grid.align_corners ? (float)(size - 1) : (float)size;
    float t = span > 0 ? fmodf(fabsf(at - low), 2 * span) : 0;
    return (t > span ? 2 * span - t : t) + low;
}

// From [-1, 1] to pixels: with align_corners the ends are the centres of the outer pixels, else
// their outer edges. Positions outside are clamped or reflected, or stay outside, where pixels are
// 0. Of a cubic it is the sixteen pixels that are.
static float grid_pixel(const struct graph_node *n, float v, uint32_t size)
{
    float last = (float)(size - 1);
    float at = n->grid.align_corners ? (v + 1) / 2 * last : ((v + 1) * (float)size - 1) / 2;
    if (n->grid.cubic || n->grid.outside == GRID_ZEROS)
        return at;
    if (n->grid.outside == GRID_REFLECTION)
        at = grid_reflected(n, at, size);
    return at < 0 ? 0 : at > last ? last : at;
}

// The comparisons are false for NaN, so a NaN position reads 0.
static int64_t grid_index(const struct graph_node *n, float at, uint32_t size)
{
    const float last = (float)(size - 1);
    if (n->grid.cubic && n->grid.outside == GRID_REFLECTION)
        at = at < 0 || at > last ? grid_reflected(n, at, size) : at;
    if (n->grid.cubic && n->grid.outside != GRID_ZEROS)
        at = at < 0 ? 0 : at > last ? last : at;
    return at >= 0 && at < (float)size ? (int64_t)at : NONE;
}

static void grid_cubic(float t, float w[4])
{
    const float a = -0.75f, d[] = {1 + t, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++)
        w[i] = i == 1 || i == 2 ? ((a + 2) * d[i] - (a + 3)) * d[i] * d[i] + 1
                                : ((a * d[i] - 5 * a) * d[i] + 8 * a) * d[i] - 4 * a;
}

// What a line of pixels counts from the one below a position on, or before that of a cubic.
static void grid_weights(const struct graph_node *n, float off, float w[4])
{
    if (n->grid.cubic) {
        grid_cubic(off, w);
    } else {
        w[0] = 1 - off;
        w[1] = off;
    }
}

// Nearest: ties to even. Returns how many lines there are.
static uint32_t grid_taps(const struct graph_node *n, const struct graph_tensor *x,
                          const float point[2], struct taps *t)
{
    const uint32_t wide = x->dims[3], high = x->dims[2];
    const uint32_t count = n->grid.nearest ? 1 : n->grid.cubic ? 4 : 2;
    float px = grid_pixel(n, point[0], wide), py = grid_pixel(n, point[1], high);
    const float x0 = n->grid.nearest ? rintf(px) : floorf(px);
    const float y0 = n->grid.nearest ? rintf(py) : floorf(py);
    const float first = n->grid.cubic ? -1 : 0;
    grid_weights(n, px - x0, t->x);
    grid_weights(n, py - y0, t->y);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t row = grid_index(n, y0 + first + (float)i, high);
        for (uint32_t k = 0; k < count; k++) {
            const int64_t column = grid_index(n, x0 + first + (float)k, wide);
            t->at[i][k] = row == NONE || column == NONE ? NONE : row * wide + column;
        }
    }
    return count;
}

static float grid_value(const float *plane, int64_t at)
{
    return at == NONE ? 0 : plane[at];
}

static float grid_weigh(const struct taps *t, uint32_t count, const float *plane)
{
    float sum = 0;
    if (count == 1)
        return grid_value(plane, t->at[0][0]);
    if (count == 2)
        return grid_value(plane, t->at[0][0]) * t->y[0] * t->x[0] +
               grid_value(plane, t->at[0][1]) * t->y[0] * t->x[1] +
               grid_value(plane, t->at[1][0]) * t->y[1] * t->x[0] +
               grid_value(plane, t->at[1][1]) * t->y[1] * t->x[1];
    for (uint32_t i = 0; i < 4; i++) {
        float line = 0;
        for (uint32_t k = 0; k < 4; k++)
            line += t->x[k] * grid_value(plane, t->at[i][k]);
        sum += t->y[i] * line;
    }
    return sum;
}

static int grid_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct grid_sample *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const float *image = plain_load(s, r, &p->x), *grid = plain_load(s, r, &p->grid);
    float *out = plain_values(s, r, &p->y);
    const size_t pixels = (size_t)y->dims[2] * y->dims[3], plane = (size_t)x->dims[2] * x->dims[3];
    struct taps taps[POINTS];
    for (size_t n = 0; n < x->dims[0]; n++, image += x->dims[1] * plane, out += x->dims[1] * pixels)
        for (size_t first = 0; first < pixels; first += POINTS) {
            const size_t left = pixels - first, points = left < POINTS ? left : POINTS;
            uint32_t count = 0;
            for (size_t i = 0; i < points; i++)
                count = grid_taps(s->node, x, grid + (n * pixels + first + i) * 2, &taps[i]);
            for (size_t c = 0; c < x->dims[1]; c++)
                for (size_t i = 0; i < points; i++)
                    out[c * pixels + first + i] = grid_weigh(&taps[i], count, image + c * plane);
        }
    plain_store(s, r, &p->y);
    return 0;
}

const struct op op_grid_sample = {.prepare = grid_prepare, .run = grid_run};
