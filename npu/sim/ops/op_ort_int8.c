// Add, Mul and Softmax between int8 tensors of ONNX, bit for bit as ONNX Runtime computes them
// (ort_int8.h has the arithmetic and its rounding). Add and Mul stay in int8 from end to end; where
// an operand is broadcast, a chunk of it is gathered first. Tested by test_onnx_against, which
// compares whole networks with ONNX Runtime.
#include <float.h>
#include <math.h>

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
    p->how = ort_int8_binary(s->node->op, step_input(s, 0), step_input(s, 1), y);
    p->how.a_first = ort_repeats(step_input(s, 0), y);
    return 0;
}

// n elements of an operand, contiguous: in place, or gathered.
static const int8_t *ort_take(const struct step *s, const struct run *r, uint32_t k, int64_t at,
                              size_t n, int8_t *gathered)
{
    const struct binary *p = s->state;
    int64_t step = nd_stride(&p->nd, k + 1);
    const int8_t *data = (const int8_t *)run_input(s, r, k) + at;
    if (step == 1)
        return data;
    for (size_t i = 0; i < n; i++)
        gathered[i] = data[(int64_t)i * step];
    return gathered;
}

// In chunks only where an operand has to be gathered.
static int run_binary(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct binary *p = s->state;
    int8_t *y = run_output(s, r, 0), room[2][ELEMENTS_CHUNK];
    size_t row = nd_inner(&p->nd), chunk = ELEMENTS_CHUNK;
    if (nd_stride(&p->nd, 1) == 1 && nd_stride(&p->nd, 2) == 1)
        chunk = row;
    struct nd_position at;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        for (size_t done = 0; done < row; done += chunk) {
            size_t n = row - done < chunk ? row - done : chunk;
            const int8_t *x[2];
            for (uint32_t k = 0; k < 2; k++) {
                int64_t from = at.offset[k + 1] + (int64_t)done * nd_stride(&p->nd, k + 1);
                x[k] = ort_take(s, r, k, from, n, room[k]);
            }
            ort_int8_binary_run(&p->how, x[0], x[1], y + at.offset[0] + done, n);
        }
    return 0;
}

// ---- Softmax ----

// y[k] = rint(e^(x[k] - max) * floor(1 / scale) / Σ e^(x[j] - max)) + zp. The exponentials come
// from a table of all 256 differences, which are scaled so that the sum of `size` of them stays
// below FLT_MAX.
struct softmax {
    struct nd_axis axis;
    float exponentials[256];
};

// Entry i: e^((i - 255) * scale), scaled up as far as the sum of `size` of them allows.
static void fill_exponentials(struct softmax *p, double scale)
{
    double max = log((double)(FLT_MAX / (float)p->axis.size)) - 5;
    double shift = (max > 0 ? max : 0) / scale;
    for (int i = 0; i < 256; i++)
        p->exponentials[i] = (float)exp((i - 255 + shift) * scale);
}

// Channels last, only softmax over channels is a loop over contiguous elements; others are refused.
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
    p->axis = nd_axis(x, (uint32_t)s->node->axis);
    if (x->channels_last) // of images, the channels are the innermost
        p->axis = (struct nd_axis){x->n_elems / x->dims[1], x->dims[1], 1};
    if (x->channels_last && s->node->axis != 1)
        return step_refuse(s, e, "along axis %d of an image", s->node->axis);
    fill_exponentials(p, (double)x->scale);
    return 0;
}

static void ort_softmax(const struct softmax *p, const struct graph_tensor *form, const int8_t *x,
                        int8_t *y)
{
    size_t n = p->axis.size, step = p->axis.inner;
    float sum = 0, steps = fminf(floorf(1 / form->scale), 1e30f);
    int top = -128;
    for (size_t i = 0; i < n; i++)
        top = x[i * step] > top ? x[i * step] : top;
    for (size_t i = 0; i < n; i++)
        sum += p->exponentials[x[i * step] + 255 - top];
    for (size_t i = 0; i < n; i++) {
        float v = p->exponentials[x[i * step] + 255 - top] * steps / sum;
        int32_t stored = (int32_t)rintf(fminf(v, 1000)) + form->zp;
        y[i * step] = (int8_t)(stored < 127 ? stored : 127);
    }
}

static int run_softmax(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct softmax *p = s->state;
    const int8_t *x = run_input(s, r, 0);
    int8_t *y = run_output(s, r, 0);
    struct nd_axis a = p->axis;
    for (size_t o = 0; o < a.outer; o++)
        for (size_t i = 0; i < a.inner; i++) {
            size_t at = o * a.size * a.inner + i;
            ort_softmax(p, step_output(s, 0), x + at, y + at);
        }
    return 0;
}

const struct op op_ort_int8_binary = {
    .prepare = prepare_binary, .run = run_binary, .in_place = true, .on_constant = true};
const struct op op_ort_int8_softmax = {.prepare = prepare_softmax, .run = run_softmax};
