// Arc sine, arc cosine, arc tangent and ThresholdedRelu of floats; of other types they are the
// reference operator's (ref_math.c). The arcs are polynomials (Cephes has their coefficients),
// which become vector instructions, off by three units in the last place at most.
//
// Tests: test_onnx_nodes, test_onnx_moves.
#include <math.h>

#include "base/bytes.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/kernel.h"

bool op_arcs_fits(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_UNARY || n->n_inputs != 1 || n->n_outputs != 1 ||
        n->inputs[0] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    const int64_t kind = n->ref.ints[0];
    return (kind == REF_ASIN || kind == REF_ACOS || kind == REF_ATAN ||
            kind == REF_THRESHOLDED_RELU) &&
           x->type == TENSOR_FLOAT32 && y->type == TENSOR_FLOAT32 && !x->unpack &&
           x->channels_last == y->channels_last && x->n_elems == y->n_elems;
}

static int arcs_prepare(struct step *s, struct error *e)
{
    return op_arcs_fits(s->plan->graph, s->node) ? 0 : step_refuse(s, e, "its input does not fit");
}

// condition ? a : b, by bits, so that no branch is made of it.
static inline float arcs_choose(bool condition, float a, float b)
{
    uint32_t mask = -(uint32_t)condition;
    return bits_float((float_bits(a) & mask) | (float_bits(b) & ~mask));
}

// The arc sine of 0 to 1/2, whose square is given.
static inline float arcs_near(float x, float square)
{
    float series = 4.2163199048e-2f;
    series = series * square + 2.4181311049e-2f;
    series = series * square + 4.5470025998e-2f;
    series = series * square + 7.4953002686e-2f;
    series = series * square + 1.6666752422e-1f;
    return x + x * square * series;
}

// From 1/2 on by the root of half of what is left to 1. Beyond 1 there is none: NaN.
static inline float arcs_sine(float x)
{
    float size = fabsf(x), half = 0.5f * (1 - size), square = size * size;
    bool far = size > 0.5f;
    float arc = arcs_near(arcs_choose(far, sqrtf(half), size), arcs_choose(far, half, square));
    return copysignf(arcs_choose(far, 1.57079633f - 2 * arc, arc), x);
}

static inline float arcs_cosine(float x)
{
    float size = fabsf(x), half = 0.5f * (1 - size), square = size * size;
    bool far = size > 0.5f;
    float arc = arcs_near(arcs_choose(far, sqrtf(half), size), arcs_choose(far, half, square));
    float above = arcs_choose(x < 0, 3.14159265f - 2 * arc, 2 * arc);
    return arcs_choose(far, above, 1.57079633f - copysignf(arc, x));
}

// From tan(pi / 8) on of what is left to pi / 4, from tan(3 pi / 8) on to pi / 2.
static inline float arcs_tangent(float v)
{
    float x = fabsf(v);
    bool far = x > 2.41421356f, middle = x > 0.414213562f;
    float over = arcs_choose(far, -1, arcs_choose(middle, x - 1, x));
    float under = arcs_choose(far, x, arcs_choose(middle, x + 1, 1));
    float rest = over / under, square = rest * rest;
    float from = arcs_choose(far, 1.57079633f, arcs_choose(middle, 0.785398163f, 0));
    float series = 8.05374449538e-2f;
    series = series * square - 1.38776856032e-1f;
    series = series * square + 1.99777106478e-1f;
    series = series * square - 3.33329491539e-1f;
    return copysignf(from + (rest + rest * square * series), v);
}

#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++) {                                                               \
        const float v = x[i];                                                                      \
        y[i] = (expression);                                                                       \
    }                                                                                              \
    break

KERNEL(void, arcs_all, (int64_t kind, float alpha, const float *x, float *y, size_t n),
       (kind, alpha, x, y, n))
{
    switch (kind) {
    case REF_ASIN:
        EACH(arcs_sine(v));
    case REF_ACOS:
        EACH(arcs_cosine(v));
    case REF_ATAN:
        EACH(arcs_tangent(v));
    default: // REF_THRESHOLDED_RELU
        EACH(arcs_choose(v > alpha, v, 0));
    }
}

static int arcs_run(const struct step *s, struct run *r, struct error *e)
{
    const struct graph_node *n = s->node;
    (void)e;
    arcs_all(n->ref.ints[0], n->ref.reals[0], run_input(s, r, 0), run_output(s, r, 0),
             step_input(s, 0)->n_elems);
    return 0;
}

const struct op op_arcs = {.prepare = arcs_prepare, .run = arcs_run, .on_constant = true};
