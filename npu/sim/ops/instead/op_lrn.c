// LRN of images in floats, channels last, with the exponents that nets have; all others are the
// reference's (ref_norm.c has the formula).
//
//   squares:  0 0 | c0² c1² c2² … | 0 0     a pixel's, with zeros where windows reach beyond
//   sums[c] = squares[c] + … + squares[c + size - 1]
//   y[c]    = x[c] / (bias + alpha / size * sums[c])^beta
//
// Tests: test_onnx_nodes, test_onnx_against.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/kernel.h"

#define MAX_SIZE 64

// The exponents that square roots make.
enum power { POWER_NONE, POWER_HALF, POWER_THREE_QUARTERS, POWER_ONE };

struct lrn {
    size_t channels, size;
    enum power power;
    float factor, bias;
    uint64_t squares_at, sums_at; // scratch
};

static enum power power_of(float beta)
{
    return beta >= .75f && beta <= .75f ? POWER_THREE_QUARTERS
           : beta >= .5f && beta <= .5f ? POWER_HALF
           : beta >= 1 && beta <= 1     ? POWER_ONE
                                        : POWER_NONE;
}

bool op_lrn_fits(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_LRN || n->n_inputs != 1 || n->n_outputs != 1 ||
        n->inputs[0] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    return power_of(n->ref.reals[1]) != POWER_NONE && n->ref.ints[0] >= 1 &&
           n->ref.ints[0] <= MAX_SIZE && x->type == TENSOR_FLOAT32 && y->type == TENSOR_FLOAT32 &&
           !x->constant && x->n_dims == 4 && y->n_dims == 4 && x->channels_last &&
           y->channels_last && x->n_elems && memcmp(x->dims, y->dims, 4 * sizeof *x->dims) == 0;
}

static int prepare_lrn(struct step *s, struct error *e)
{
    const float *reals = s->node->ref.reals;
    struct lrn *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    *p = (struct lrn){.channels = step_input(s, 0)->dims[1],
                      .size = (size_t)s->node->ref.ints[0],
                      .power = power_of(reals[1]),
                      .factor = reals[0] / (float)s->node->ref.ints[0],
                      .bias = reals[2]};
    int r = step_scratch(s, (p->channels + p->size) * sizeof(float), &p->squares_at, e);
    return r < 0 ? r : step_scratch(s, p->channels * sizeof(float), &p->sums_at, e);
}

KERNEL(void, square, (const float *restrict x, size_t n, float *restrict to), (x, n, to))
{
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] * x[i];
}

KERNEL(void, add_windows,
       (const float *restrict squares, size_t size, size_t n, float *restrict sums),
       (squares, size, n, sums))
{
    if (size == 5) // as most nets have it
        for (size_t i = 0; i < n; i++)
            sums[i] =
                squares[i] + squares[i + 1] + squares[i + 2] + squares[i + 3] + squares[i + 4];
    else
        for (size_t i = 0; i < n; i++)
            sums[i] = squares[i];
    for (size_t k = 1; k < size && size != 5; k++)
        for (size_t i = 0; i < n; i++)
            sums[i] += squares[i + k];
}

KERNEL(void, divide,
       (const struct lrn *p, const float *restrict x, const float *restrict sums,
        float *restrict to),
       (p, x, sums, to))
{
    const float factor = p->factor, bias = p->bias;
    const size_t n = p->channels;
    if (p->power == POWER_ONE)
        for (size_t i = 0; i < n; i++)
            to[i] = x[i] / (bias + factor * sums[i]);
    else if (p->power == POWER_HALF)
        for (size_t i = 0; i < n; i++)
            to[i] = x[i] / sqrtf(bias + factor * sums[i]);
    else
        for (size_t i = 0; i < n; i++) {
            float root = sqrtf(bias + factor * sums[i]);
            to[i] = x[i] / (root * sqrtf(root));
        }
}

// A window of an even size has one channel more behind than in front.
static int run_lrn(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct lrn *p = s->state;
    const float *x = run_input(s, r, 0);
    float *to = run_output(s, r, 0), *squares = run_scratch(r, p->squares_at);
    float *sums = run_scratch(r, p->sums_at);
    memset(squares, 0, (p->channels + p->size) * sizeof *squares);
    for (size_t at = 0; at < step_input(s, 0)->n_elems; at += p->channels) {
        square(x + at, p->channels, squares + (p->size - 1) / 2);
        add_windows(squares, p->size, p->channels, sums);
        divide(p, x + at, sums, to + at);
    }
    return 0;
}

const struct op op_lrn = {.prepare = prepare_lrn, .run = run_lrn};
