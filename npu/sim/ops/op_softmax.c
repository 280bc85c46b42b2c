// Softmax and its logarithm in floats (plain.h), rounded as elements_store() does; that of ONNX's
// int8 is in op_ort_int8.c.
//
//   y[k] = e^(x[k] - top) / Σ e^(x[j] - top)      top: the largest, so that nothing overflows
//   y[k] = x[k] - top - log Σ e^(x[j] - top)      LogSoftmax
//
// The tensor is seen as [outer][size][inner] (nd_axis). Where input and output have the same
// storage order it stays in that (plain_as_they_lie), which saves two transpositions of images.
//
//   inner 1   rows of contiguous elements, as many at once as fit a chunk. The largest and the sum
//             are those of LANES partial ones, which vector instructions keep side by side. Rows of
//             fewer elements are transposed.
//   inner n   neighbours are computed together, as the lanes of vectors
//
// Tested by test_sim_cases_reduce, test_sim_fp16 and test_onnx_nodes.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"
#include "npu/sim/simd/functions/exponential.h"
#include "tensor/transpose.h"

#define LANES 16

struct softmax {
    struct plain in, out;
    struct nd_axis axis;
    bool logarithm;
};

static int softmax_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct softmax *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (plain_input(s, 0, &p->in, e) < 0 || plain_output(s, 0, &p->out, e) < 0)
        return STATUS_MODEL_INVALID;
    if (x->n_elems != y->n_elems)
        return step_refuse(s, e, "input and output differ in size");
    if (s->node->axis < 0 || (uint32_t)s->node->axis >= x->n_dims || !x->n_elems)
        return step_refuse(s, e, "it has no valid axis, or nothing to work on");
    p->logarithm = s->node->op == GRAPH_LOG_SOFTMAX;
    p->axis = nd_axis(x, (uint32_t)s->node->axis);
    if (!plain_as_they_lie(s, &p->in, &p->out))
        return 0;
    int64_t strides[GRAPH_MAX_DIMS];
    graph_tensor_strides(x, strides);
    p->axis.inner = (size_t)strides[s->node->axis];
    p->axis.outer = x->n_elems / p->axis.size / p->axis.inner;
    return 0;
}

static const struct graph_post exponential = {.kind = POST_EXP};

// e^x of what is not above 0, in place.
static void raise_row(float *x, size_t n)
{
    if (exponential_fits())
        exponential_row(x, 0, n, x);
    else
        elements_post(&exponential, x, n);
}

// y = x - the largest of each row.
KERNEL(void, subtract_top, (const float *x, size_t rows, size_t n, float *restrict y),
       (x, rows, n, y))
{
    for (; rows; rows--, x += n, y += n) {
        float tops[LANES], top;
        size_t i = 0;
        for (size_t l = 0; l < LANES; l++)
            tops[l] = -INFINITY;
        for (; i + LANES <= n; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                tops[l] = x[i + l] > tops[l] ? x[i + l] : tops[l];
        top = tops[0];
        for (size_t l = 1; l < LANES; l++)
            top = tops[l] > top ? tops[l] : top;
        for (; i < n; i++)
            top = x[i] > top ? x[i] : top;
        for (i = 0; i < n; i++)
            y[i] = x[i] - top;
    }
}

// Each row by its sum.
KERNEL(void, divide_by_sum, (size_t rows, size_t n, float *y), (rows, n, y))
{
    for (; rows; rows--, y += n) {
        float sums[LANES] = {0}, sum = 0;
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                sums[l] += y[i + l];
        for (size_t l = 0; l < LANES; l++)
            sum += sums[l];
        for (; i < n; i++)
            sum += y[i];
        for (i = 0; i < n; i++)
            y[i] /= sum;
    }
}

KERNEL(float, sum_of, (const float *x, size_t n), (x, n))
{
    float sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            sums[l] += x[i + l];
    for (size_t l = 0; l < LANES; l++)
        sum += sums[l];
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

KERNEL(void, subtract_number, (float *x, float less, size_t n), (x, less, n))
{
    for (size_t i = 0; i < n; i++)
        x[i] -= less;
}

// y: each row less its largest. Exponentials are needed for the sum alone, a chunk at a time.
static void finish_log_row(size_t n, float *y)
{
    float powers[ELEMENTS_CHUNK], sum = 0;
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < ELEMENTS_CHUNK ? n - at : ELEMENTS_CHUNK;
        memcpy(powers, y + at, part * sizeof *y);
        elements_post(&exponential, powers, part);
        sum += sum_of(powers, part);
    }
    subtract_number(y, logf(sum), n);
}

static void log_softmax_rows(const float *x, size_t rows, size_t n, float *y)
{
    float powers[ELEMENTS_CHUNK];
    size_t together = ELEMENTS_CHUNK / n;
    subtract_top(x, rows, n, y);
    for (; rows && !together; rows--, y += n)
        finish_log_row(n, y);
    for (size_t count; rows; rows -= count, y += count * n) {
        count = rows < together ? rows : together;
        memcpy(powers, y, count * n * sizeof *y);
        elements_post(&exponential, powers, count * n);
        for (size_t k = 0; k < count; k++)
            subtract_number(y + k * n, logf(sum_of(powers + k * n, n)), n);
    }
}

// `width` neighbours (at most ELEMENTS_CHUNK), each of n elements at a stride of `step`.
KERNEL(void, softmax_columns,
       (const float *x, bool logarithm, size_t n, size_t step, size_t width, float *y),
       (x, logarithm, n, step, width, y))
{
    float top[ELEMENTS_CHUNK], sum[ELEMENTS_CHUNK] = {0}, powers[ELEMENTS_CHUNK];
    for (size_t i = 0; i < width; i++)
        top[i] = -INFINITY;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < width; i++)
            top[i] = x[k * step + i] > top[i] ? x[k * step + i] : top[i];
    for (size_t k = 0; k < n; k++) {
        float *row = y + k * step;
        for (size_t i = 0; i < width; i++)
            row[i] = x[k * step + i] - top[i];
        if (logarithm)
            memcpy(powers, row, width * sizeof *row);
        float *powers_of_row = logarithm ? powers : row;
        raise_row(powers_of_row, width);
        for (size_t i = 0; i < width; i++)
            sum[i] += powers_of_row[i];
    }
    for (size_t i = 0; i < width && logarithm; i++)
        sum[i] = logf(sum[i]);
    for (size_t i = 0; i < width && !logarithm; i++)
        sum[i] = 1 / sum[i];
    for (size_t k = 0; k < n && logarithm; k++)
        for (size_t i = 0; i < width; i++)
            y[k * step + i] -= sum[i];
    for (size_t k = 0; k < n && !logarithm; k++)
        for (size_t i = 0; i < width; i++)
            y[k * step + i] *= sum[i];
}

static void softmax_rows(const float *x, size_t rows, size_t n, float *y)
{
    if (exponential_fits()) {
        exponential_softmax(x, rows, n, y);
        return;
    }
    size_t together = n < ELEMENTS_CHUNK ? ELEMENTS_CHUNK / n : 1;
    for (size_t count; rows; rows -= count, x += count * n, y += count * n) {
        count = rows < together ? rows : together;
        subtract_top(x, count, n, y);
        elements_post(&exponential, y, count * n);
        divide_by_sum(count, n, y);
    }
}

// Rows of a few elements, many at a time: transposed, they are columns.
static void softmax_short_rows(const float *x, size_t rows, size_t n, float *y)
{
    float turned[ELEMENTS_CHUNK];
    const ptrdiff_t size = sizeof *x, row = (ptrdiff_t)n * size;
    for (size_t count; rows; rows -= count, x += count * n, y += count * n) {
        count = rows < ELEMENTS_CHUNK / n ? rows : ELEMENTS_CHUNK / n;
        const ptrdiff_t column = (ptrdiff_t)count * size;
        transpose_matrix(x, row, turned, column, count, n, sizeof *x);
        softmax_columns(turned, false, n, count, count, turned);
        transpose_matrix(turned, column, y, row, n, count, sizeof *x);
    }
}

static int softmax_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct softmax *p = s->state;
    const float *x = plain_load(s, r, &p->in);
    float *y = plain_values(s, r, &p->out);
    struct nd_axis a = p->axis;
    if (a.inner == 1 && p->logarithm)
        log_softmax_rows(x, a.outer, a.size, y);
    else if (a.inner == 1)
        (a.size < LANES ? softmax_short_rows : softmax_rows)(x, a.outer, a.size, y);
    for (size_t o = 0; o < a.outer && a.inner > 1;
         o++, x += a.size * a.inner, y += a.size * a.inner)
        for (size_t i = 0; i < a.inner; i += ELEMENTS_CHUNK)
            softmax_columns(x + i, p->logarithm, a.size, a.inner,
                            a.inner - i < ELEMENTS_CHUNK ? a.inner - i : ELEMENTS_CHUNK, y + i);
    plain_store(s, r, &p->out);
    return 0;
}

const struct op op_softmax = {.prepare = softmax_prepare, .run = softmax_run};
const struct op op_log_softmax = {.prepare = softmax_prepare, .run = softmax_run};
