// Add, Mul and Softmax between int8 tensors of ONNX, bit for bit as ONNX Runtime computes them
// (ort_int8.h has the arithmetic and its rounding). Add and Mul stay in int8 from end to end; where
// an operand is broadcast, a chunk of it is gathered first. Tested by test_onnx_against, which
// compares whole networks with ONNX Runtime.
#include <float.h>
#include <math.h>
#include <string.h>

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"
#include "npu/sim/ops/ort_int8.h"

static bool is_int8(const struct graph_tensor *t)
{
    return t && t->type == TENSOR_INT8 && t->quantized && t->rounds_before_zp && !t->unpack;
}

// ---- Add, Mul ----

struct binary {
    struct nd nd; // operand 0: the output, then the operands
    struct ort_int8_binary how;
};

// ONNX Runtime adds the first operand first where it broadcasts one number of it along a row. The
// order matters, as each fma rounds.
static bool ort_repeats(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return y->n_dims && y->dims[y->n_dims - 1] > 1 &&
           (x->n_dims == 0 || x->dims[x->n_dims - 1] == 1);
}

static int prepare_binary(struct step *s, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct binary *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!is_int8(y) || s->node->n_post)
        return step_refuse(s, e, "its output is not one of 8-bit numbers");
    nd_init(&p->nd, y);
    for (uint32_t k = 0; k < 2; k++) {
        const struct graph_tensor *x = step_input(s, k);
        if (!is_int8(x) || !nd_broadcast(&p->nd, x))
            return step_refuse(s, e, "its input %u does not fit its output", k);
    }
    nd_simplify(&p->nd);
    nd_split_inner(&p->nd);
    p->how = ort_int8_binary(s->node->op, step_input(s, 0), step_input(s, 1), y);
    p->how.a_first = ort_repeats(step_input(s, 0), y);
    return 0;
}

// Rows of the two innermost dimensions that are computed at once, as one row of all their elements.
struct block {
    size_t rows, row;
    int64_t from[2]; // of its first element, in each operand
};

// Elements of an operand, contiguous: in place, or gathered into *room, where those of the block
// before may be the same: *ret_held, from where there are as many of them.
static const int8_t *ort_take(const struct step *s, const struct run *r, uint32_t k,
                              const struct block *b, int8_t *room, struct block *held)
{
    const struct binary *p = s->state;
    const int64_t step = nd_stride(&p->nd, k + 1), down = p->nd.strides[k + 1][p->nd.n_dims - 2];
    const int8_t *data = (const int8_t *)run_input(s, r, k) + b->from[k];
    if (step == 1 && (b->rows == 1 || down == (int64_t)b->row))
        return data;
    if (down == 0 && held->from[k] == b->from[k] && held->row == b->row && held->rows >= b->rows)
        return room;
    for (size_t j = 0; j < b->rows; j++, data += down) {
        int8_t *to = room + j * b->row;
        if (step == 1)
            memcpy(to, data, b->row);
        else if (step == 0)
            memset(to, *data, b->row);
        else
            for (size_t i = 0; i < b->row; i++)
                to[i] = data[(int64_t)i * step];
    }
    held->from[k] = b->from[k];
    held->row = b->row;
    held->rows = b->rows;
    return room;
}

// Whether all operands of a plane follow each other from row to row: then it is one row.
static bool ort_is_one_row(const struct binary *p)
{
    bool one = true;
    for (uint32_t k = 0; k < 3; k++)
        one = one && nd_stride(&p->nd, k) == 1 &&
              (p->nd.dims[p->nd.n_dims - 2] == 1 ||
               p->nd.strides[k][p->nd.n_dims - 2] == (int64_t)nd_inner(&p->nd));
    return one;
}

// The two innermost dimensions, from the elements of `plane` on: short rows many at a time, long
// ones in parts where an operand has to be gathered.
static void ort_run_plane(const struct step *s, const struct run *r, const int64_t plane[3],
                          int8_t room[2][ELEMENTS_CHUNK], struct block held[2])
{
    const struct binary *p = s->state;
    const uint32_t outer = p->nd.n_dims - 2;
    size_t rows = (size_t)p->nd.dims[outer], row = nd_inner(&p->nd);
    size_t chunk = ort_is_one_row(p) ? rows * row : ELEMENTS_CHUNK;
    bool follow = p->nd.strides[0][outer] == (int64_t)row;
    size_t together = follow && row && row < chunk ? chunk / row : 1;
    int8_t *y = run_output(s, r, 0);
    for (size_t j = 0; j < rows; j += together)
        for (size_t i = 0; i < row; i += chunk) {
            struct block b = {.rows = rows - j < together ? rows - j : together,
                              .row = row - i < chunk ? row - i : chunk};
            const int8_t *x[2];
            for (uint32_t k = 0; k < 2; k++) {
                b.from[k] = plane[k + 1] + (int64_t)j * p->nd.strides[k + 1][outer] +
                            (int64_t)i * nd_stride(&p->nd, k + 1);
                x[k] = ort_take(s, r, k, &b, room[k], &held[k]);
            }
            ort_int8_binary_run(&p->how, x[0], x[1],
                                y + plane[0] + (int64_t)j * p->nd.strides[0][outer] + i,
                                b.rows * b.row);
        }
}

// All planes; gathered operands are kept from one to the next where they are the same.
static int run_binary(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct binary *p = s->state;
    int8_t room[2][ELEMENTS_CHUNK];
    struct block held[2] = {0};
    struct nd outer = p->nd;
    struct nd_position at;
    outer.n_dims--;
    for (nd_start(&outer, &at); !at.end; nd_next(&outer, &at))
        ort_run_plane(s, r, at.offset, room, held);
    return 0;
}

// ---- Softmax ----

// y[k] = rint(e^(x[k] - max) * floor(1 / scale) / Σ e^(x[j] - max)) + zp. The exponentials come
// from a table of all 256 differences, which are scaled so that the sum of `size` of them stays
// below FLT_MAX. They are added one after the other, as ONNX Runtime does, so some rows are added
// together: a sum takes a while until it can be added to.
struct softmax {
    struct nd_axis axis;
    float exponentials[256];
    uint64_t powers_at; // scratch: those of TOGETHER rows
};

#define TOGETHER 4

// Entry i: e^((i - 255) * scale), scaled up as far as the sum of `size` of them allows.
static void fill_exponentials(struct softmax *p, double scale)
{
    double max = log((double)(FLT_MAX / (float)p->axis.size)) - 5;
    double shift = (max > 0 ? max : 0) / scale;
    for (int i = 0; i < 256; i++)
        p->exponentials[i] = (float)exp((i - 255 + shift) * scale);
}

// Along the axis as it lies in memory: in images, too, that is [outer][size][inner].
static int prepare_softmax(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct softmax *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!is_int8(x) || !is_int8(y) || x->n_elems != y->n_elems || !x->n_elems ||
        x->channels_last != y->channels_last || s->node->axis < 0 ||
        (uint32_t)s->node->axis >= x->n_dims)
        return step_refuse(s, e, "its input and output do not fit");
    int64_t strides[GRAPH_MAX_DIMS];
    graph_tensor_strides(x, strides);
    size_t size = x->dims[s->node->axis], inner = (size_t)strides[s->node->axis];
    p->axis = (struct nd_axis){x->n_elems / size / inner, size, inner};
    fill_exponentials(p, (double)x->scale);
    return step_scratch(s, TOGETHER * p->axis.size * sizeof(float), &p->powers_at, e);
}

KERNEL(int, find_top, (const int8_t *x, size_t step, size_t n), (x, step, n))
{
    int8_t top = INT8_MIN;
    if (step == 1)
        for (size_t i = 0; i < n; i++)
            top = x[i] > top ? x[i] : top;
    else
        for (size_t i = 0; i < n; i++)
            top = x[i * step] > top ? x[i * step] : top;
    return top;
}

// The exponentials of TOGETHER rows, and their sums. tables[row]: of 0, as x is.
static void look_up_powers(const float *const *tables, const int8_t *const *rows, size_t step,
                           size_t n, float *powers, float *ret_sums)
{
    float sums[TOGETHER] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < TOGETHER; k++) {
            float power = tables[k][rows[k][i * step]];
            powers[k * n + i] = power;
            sums[k] += power;
        }
    memcpy(ret_sums, sums, sizeof sums);
}

static inline int8_t ort_weight(float power, float steps, float sum, int32_t zp)
{
    float v = power * steps / sum;
    int32_t stored = (int32_t)rintf(v < 1000 ? v : 1000) + zp;
    return (int8_t)(stored < 127 ? stored : 127);
}

KERNEL(void, store_weights,
       (const float *powers, size_t n, float steps, float sum, int32_t zp, int8_t *y, size_t step),
       (powers, n, steps, sum, zp, y, step))
{
    if (step == 1)
        for (size_t i = 0; i < n; i++)
            y[i] = ort_weight(powers[i], steps, sum, zp);
    else
        for (size_t i = 0; i < n; i++)
            y[i * step] = ort_weight(powers[i], steps, sum, zp);
}

// `count` rows, TOGETHER at most, which begin `apart` elements from each other.
static void ort_softmax(const struct softmax *p, const struct graph_tensor *form, const int8_t *x,
                        size_t apart, size_t count, float *powers, int8_t *y)
{
    size_t n = p->axis.size, step = p->axis.inner;
    float sums[TOGETHER], steps = fminf(floorf(1 / form->scale), 1e30f);
    const float *tables[TOGETHER];
    const int8_t *rows[TOGETHER];
    for (size_t k = 0; k < TOGETHER; k++) {
        rows[k] = x + (k < count ? k : 0) * apart;
        tables[k] = p->exponentials + 255 - find_top(rows[k], step, n);
    }
    look_up_powers(tables, rows, step, n, powers, sums);
    for (size_t k = 0; k < count; k++)
        store_weights(powers + k * n, n, steps, sums[k], form->zp, y + k * apart, step);
}

static int run_softmax(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct softmax *p = s->state;
    const int8_t *x = run_input(s, r, 0);
    int8_t *y = run_output(s, r, 0);
    struct nd_axis a = p->axis;
    // Rows that lie behind each other, or, with inner, beside each other.
    size_t apart = a.inner == 1 ? a.size : 1, rows = a.inner == 1 ? a.outer : a.inner;
    size_t blocks = a.inner == 1 ? 1 : a.outer;
    for (size_t o = 0; o < blocks; o++)
        for (size_t i = 0; i < rows; i += TOGETHER) {
            size_t at = o * a.size * a.inner + i * apart;
            ort_softmax(p, step_output(s, 0), x + at, apart,
                        rows - i < TOGETHER ? rows - i : TOGETHER, run_scratch(r, p->powers_at),
                        y + at);
        }
    return 0;
}

const struct op op_ort_int8_binary = {
    .prepare = prepare_binary, .run = run_binary, .in_place = true, .on_constant = true};
const struct op op_ort_int8_softmax = {.prepare = prepare_softmax, .run = run_softmax};
