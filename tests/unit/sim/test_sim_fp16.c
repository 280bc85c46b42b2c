// Nodes of fp16 of random shapes, against values computed one by one in doubles.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/conv/conv.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/simd/kernel.h"
#include "tensor/convert.h"
#include "tests/support/seed.h"

#define CASES 200
#define MOST  6 // tensors of a net

enum { A, B, Y };

// One node, whose first tensors are A, B and Y.
struct net {
    struct graph graph;
    struct graph_tensor tensors[MOST];
    struct graph_node node;
    int32_t inputs[MOST];
    void *values[MOST];
    uint32_t n_inputs;
    bool in_order; // our own kernel of dense convolutions has computed it
};

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + (uint32_t)rand() % (high - low + 1);
}

static bool one_in(uint32_t n)
{
    return between(1, n) == 1;
}

// Few bits, so that results often are ties.
static float any_value(bool special)
{
    static const float specials[] = {INFINITY, -INFINITY, NAN, -0.0f, 65504, 6e-8f};
    if (special && one_in(8))
        return specials[between(0, 5)];
    return ((float)between(0, 4096) - 2048) / (float)(1 << between(0, 10));
}

static void add_tensor(struct net *n, uint32_t i, enum tensor_type type, const uint32_t dims[4],
                       bool special)
{
    struct graph_tensor *t = &n->tensors[i];
    struct error e;
    *t = (struct graph_tensor){.name = "t",
                               .type = type,
                               .n_dims = 4,
                               .channels_last = true,
                               .arena_offset = GRAPH_NO_OFFSET};
    memcpy(t->dims, dims, sizeof t->dims / 2);
    assert_int_equal(graph_tensor_measure(t, &e), 0);
    n->values[i] = calloc(t->n_elems + 1, sizeof(float));
    for (size_t k = 0; k < t->n_elems; k++)
        if (type == TENSOR_FLOAT16)
            ((uint16_t *)n->values[i])[k] = convert_float_to_fp16(any_value(special));
        else
            ((float *)n->values[i])[k] = any_value(false);
    n->graph.n_tensors = i + 1 > n->graph.n_tensors ? i + 1 : n->graph.n_tensors;
}

static void make_constant(struct net *n, uint32_t i)
{
    struct graph_tensor *t = &n->tensors[i];
    t->constant = true;
    t->channels_last = false;
    t->data = (struct bytes){n->values[i], t->size};
}

static void add_input(struct net *n, uint32_t tensor)
{
    n->inputs[n->n_inputs++] = (int32_t)tensor;
}

// A, of which Y is made.
static void add_halves(struct net *n, const uint32_t x[4], const uint32_t y[4])
{
    add_tensor(n, A, TENSOR_FLOAT16, x, false);
    add_tensor(n, Y, TENSOR_FLOAT16, y, false);
    add_input(n, A);
}

static double value(const struct net *n, uint32_t i, size_t at)
{
    return n->tensors[i].type == TENSOR_FLOAT16
               ? (double)convert_fp16_to_float(((const uint16_t *)n->values[i])[at])
               : (double)((const float *)n->values[i])[at];
}

// The place of an element in memory.
static size_t place(const struct graph_tensor *t, const uint32_t at[4])
{
    if (!t->channels_last)
        return ((at[0] * t->dims[1] + at[1]) * (size_t)t->dims[2] + at[2]) * t->dims[3] + at[3];
    return ((at[0] * t->dims[2] + at[2]) * (size_t)t->dims[3] + at[3]) * t->dims[1] + at[1];
}

// The dimensions of the i-th element.
static void index_of(const struct graph_tensor *t, size_t i, uint32_t at[4])
{
    for (uint32_t d = 4; d-- > 0; i /= t->dims[d])
        at[d] = (uint32_t)(i % t->dims[d]);
}

// Computes Y's values.
static void run_net(struct net *n)
{
    static const int32_t outputs[] = {Y};
    uint32_t inputs[MOST], n_run = 0;
    struct plan p;
    struct run r;
    struct error e;
    n->node.name = "n";
    n->node.type = "N";
    n->node.inputs = n->inputs;
    n->node.n_inputs = n->n_inputs;
    n->node.outputs = outputs;
    n->node.n_outputs = 1;
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (!n->tensors[n->inputs[i]].constant)
            inputs[n_run++] = (uint32_t)n->inputs[i];
    n->graph.nodes = &n->node;
    n->graph.n_nodes = n->graph.n_outputs = 1;
    n->graph.tensors = n->tensors;
    n->graph.inputs = inputs;
    n->graph.n_inputs = n_run;
    n->graph.outputs = (const uint32_t *)outputs;
    if (plan_init(&p, &n->graph, &e) < 0 || run_init(&r, &p, &e) < 0)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < n_run; i++)
        memcpy(run_tensor(&r, inputs[i]), n->values[inputs[i]], n->tensors[inputs[i]].size);
    assert_int_equal(run_steps(&r, &e), 0);
    n->in_order =
        n->node.op == GRAPH_CONV && ((const struct conv *)p.steps[0].state)->kernel == CONV_FLOATS;
    memcpy(n->values[Y], run_tensor(&r, Y), n->tensors[Y].size);
    run_done(&r);
    plan_done(&p);
}

static void free_net(struct net *n)
{
    for (int i = 0; i < MOST; i++)
        free(n->values[i]);
}

// As Y stores it.
static double rounded(const struct net *n, double v)
{
    bool half = n->tensors[Y].type == TENSOR_FLOAT16;
    return (double)(half ? convert_fp16_to_float(convert_float_to_fp16((float)v)) : (float)v);
}

// What is stored is what something rounds to that is at most `error` from the real number.
static void check_near(const struct net *n, size_t at, double real, double error)
{
    double low = rounded(n, real - error), high = rounded(n, real + error), got = value(n, Y, at);
    if (!(got >= low && got <= high))
        fail_msg("element %zu of %ux%ux%ux%u is %.9g, expected %.9g", at, n->tensors[Y].dims[0],
                 n->tensors[Y].dims[1], n->tensors[Y].dims[2], n->tensors[Y].dims[3], got, real);
}

static void check_bits(const struct net *n, size_t at, float real)
{
    uint16_t got = ((const uint16_t *)n->values[Y])[at], want = convert_float_to_fp16(real);
    if (isnan(real) ? !isnan(convert_fp16_to_float(got)) : got != want)
        fail_msg("element %zu is %04x, expected %04x", at, got, want);
}

static void random_dims(uint32_t dims[4])
{
    dims[0] = between(1, 2);
    dims[1] = one_in(3) ? 8 * between(1, 6) : between(1, 40);
    dims[2] = between(1, 8);
    dims[3] = one_in(3) ? between(1, 80) : between(1, 12);
}

// ---- convolutions, dense or with one filter for each channel ----

static void choose_window(struct graph_window *w, uint32_t x[4], uint32_t y[4])
{
    random_dims(x);
    memcpy(y, x, 4 * sizeof *y);
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = between(1, 5);
        w->stride[i] = one_in(3) ? between(2, 3) : 1;
        w->dilation[i] = one_in(3) ? between(2, 4) : 1;
        w->pad[i] = between(0, 3);
        w->pad[2 + i] = between(0, 3);
        uint32_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        x[2 + i] = reach + between(0, one_in(4) ? 60 : 10);
        y[2 + i] = (x[2 + i] + w->pad[i] + w->pad[2 + i] - reach) / w->stride[i] + 1;
    }
}

// Of an image of this type, into w->groups.
static void add_convolution(struct net *n, enum tensor_type type, const uint32_t x[4],
                            const uint32_t y[4])
{
    const struct graph_window *w = &n->node.window;
    n->node.op = GRAPH_CONV;
    add_tensor(n, A, type, x, false);
    add_tensor(n, B, TENSOR_FLOAT16,
               (uint32_t[]){y[1], x[1] / w->groups, w->kernel[0], w->kernel[1]}, false);
    add_tensor(n, Y, one_in(4) ? TENSOR_FLOAT32 : TENSOR_FLOAT16, y, false);
    add_tensor(n, 3, TENSOR_FLOAT32, (uint32_t[]){y[1], 1, 1, 1}, false);
    make_constant(n, B);
    make_constant(n, 3);
    add_input(n, A);
    add_input(n, B);
    if (!one_in(4))
        add_input(n, 3);
    if (one_in(3))
        n->node.post[n->node.n_post++] =
            (struct graph_post){.kind = one_in(3) ? POST_LEAKY_RELU : POST_RELU, .alpha = 0.125F};
}

static void make_convolution(struct net *n)
{
    struct graph_window *w = &n->node.window;
    uint32_t x[4], y[4];
    choose_window(w, x, y);
    if (one_in(2)) // units of one pixel, and of two
        x[1] = y[1] = 8 * between(1, 12);
    w->groups = x[1];
    if (one_in(2)) {
        w->groups = 1;
        y[1] = between(1, 80);
    }
    add_convolution(n, TENSOR_FLOAT16, x, y);
}

// In several groups of some channels each, also of floats.
static void make_groups(struct net *n)
{
    struct graph_window *w = &n->node.window;
    uint32_t x[4], y[4];
    choose_window(w, x, y);
    w->groups = between(2, 5);
    x[1] = w->groups * (one_in(3) ? 8 : between(2, 12));
    y[1] = w->groups * (one_in(3) ? 16 : between(1, 20));
    add_convolution(n, one_in(2) ? TENSOR_FLOAT32 : TENSOR_FLOAT16, x, y);
}

// oneDNN has a product of matrices for them with AVX2, or something that is as slow.
static bool groups_are_ours(const struct net *n)
{
    bool two = false;
#ifdef __x86_64__
    two = kernel_has_avx2() && !kernel_has_avx512();
#endif
    return two && n->graph.tensors[B].dims[1] > 1;
}

// The sum, that of the absolute values, and the sum as floats that are rounded product by product:
// with AVX512 tap by tap, then the bias; with AVX2 from the bias on, eight channels of all taps
// after the other (in several groups as with NEON); with NEON from the bias on, tap by tap.
static double sum_window(const struct net *n, const uint32_t at[4], double *ret_size,
                         float *ret_rounded)
{
    const struct graph_window *w = &n->node.window;
    const struct graph_tensor *x = &n->tensors[A], *weight = &n->tensors[B];
    double bias = n->n_inputs > 2 ? value(n, 3, at[1]) : 0, sum = bias;
    uint32_t each = weight->dims[1], first = at[1] / (weight->dims[0] / w->groups) * each;
    const bool last = kernel_has_avx512(), eights = !last && kernel_has_avx2() && w->groups == 1;
    const uint32_t taps = w->kernel[0] * w->kernel[1], part = eights ? 8 : each;
    float ordered = last ? 0 : (float)bias;
    *ret_size = fabs(sum);
    for (uint32_t from = 0; from < each; from += part)
        for (uint32_t tap = 0; tap < taps; tap++) {
            uint32_t ky = tap / w->kernel[1], kx = tap % w->kernel[1];
            uint32_t iy = at[2] * w->stride[0] + ky * w->dilation[0] - w->pad[0];
            uint32_t ix = at[3] * w->stride[1] + kx * w->dilation[1] - w->pad[1];
            if (iy >= x->dims[2] || ix >= x->dims[3]) // also what lies before the image
                continue;
            for (uint32_t i = from; i < each && i < from + part; i++) {
                double v = value(n, A, place(x, (uint32_t[]){at[0], first + i, iy, ix}));
                double weigh = value(n, B, place(weight, (uint32_t[]){at[1], i, ky, kx}));
                sum += v * weigh;
                ordered = fmaf((float)v, (float)weigh, ordered);
                *ret_size += fabs(v * weigh);
            }
        }
    *ret_rounded = last ? ordered + (float)bias : ordered;
    return sum;
}

static void check_convolution(const struct net *n)
{
    uint32_t at[4];
    for (size_t i = 0; i < n->tensors[Y].n_elems; i++) {
        index_of(&n->tensors[Y], i, at);
        float ordered, below = !n->node.n_post                           ? 1
                               : n->node.post[0].kind == POST_LEAKY_RELU ? 0.125F
                                                                         : 0;
        double size, sum = sum_window(n, at, &size, &ordered), error = size * 0x1p-20;
        if (n->in_order)
            check_near(n, place(&n->tensors[Y], at),
                       (double)(ordered < 0 ? ordered * below : ordered), 0);
        else
            check_near(n, place(&n->tensors[Y], at), sum < 0 ? sum * (double)below : sum, error);
    }
}

// A convolution in one group, whose window is set but for that.
static void add_dense(struct net *n, const uint32_t x[4], const uint32_t y[4],
                      enum tensor_type type, enum tensor_type weights, bool biased)
{
    const uint32_t *kernel = n->node.window.kernel;
    n->node.op = GRAPH_CONV;
    n->node.window.groups = 1;
    add_tensor(n, A, type, x, false);
    add_tensor(n, B, weights, (uint32_t[]){y[1], x[1], kernel[0], kernel[1]}, false);
    add_tensor(n, Y, type, y, false);
    add_tensor(n, 3, TENSOR_FLOAT32, (uint32_t[]){y[1], 1, 1, 1}, false);
    make_constant(n, B);
    make_constant(n, 3);
    add_input(n, A);
    add_input(n, B);
    if (biased)
        add_input(n, 3);
}

// Many products for each output, of which there are few: by weights that stay fp16 with AVX512.
static void make_few_pixels(struct net *n)
{
    struct graph_window *w = &n->node.window;
    uint32_t x[4] = {1, between(130, 300), 1, 1}, y[4] = {1, between(1, 150), 1, 1};
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = between(1, 3);
        w->stride[i] = between(1, 2);
        w->dilation[i] = 1;
        y[2 + i] = between(1, i ? 3 : 2);
        x[2 + i] = (y[2 + i] - 1) * w->stride[i] + w->kernel[i];
    }
    add_dense(n, x, y, TENSOR_FLOAT16, TENSOR_FLOAT16, !one_in(4));
    if (one_in(3))
        n->node.post[n->node.n_post++] = (struct graph_post){.kind = POST_RELU};
}

// Weights of a megabyte and more: block by block, with the next one's prefetched.
static void make_large_weights(struct net *n)
{
    struct graph_window *w = &n->node.window;
    const enum tensor_type type = one_in(2) ? TENSOR_FLOAT16 : TENSOR_FLOAT32;
    uint32_t x[4] = {1, 0, 1, 1}, y[4] = {1, 0, 1, 1}, taps = 1;
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = between(1, 3);
        w->stride[i] = between(1, 2);
        w->dilation[i] = between(1, 2);
        w->pad[i] = between(0, 1);
        w->pad[2 + i] = between(0, 1);
        uint32_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        x[2 + i] = reach + between(0, 4);
        y[2 + i] = (x[2 + i] + w->pad[i] + w->pad[2 + i] - reach) / w->stride[i] + 1;
        taps *= w->kernel[i];
    }
    y[1] = between(60, 200);
    x[1] = (1 << 18) / y[1] / taps + between(1, 8);
    add_dense(n, x, y, type, TENSOR_FLOAT32, true);
    if (one_in(2))
        n->node.post[n->node.n_post++] =
            (struct graph_post){.kind = one_in(2) ? POST_LEAKY_RELU : POST_RELU, .alpha = 0.125F};
}

// Dense, of all pixels one by one.
static void make_one_channel(struct net *n)
{
    uint32_t x[4] = {between(1, 2), between(2, one_in(3) ? 128 : 12), between(1, 9),
                     between(1, 150)};
    uint32_t y[4] = {x[0], 1, x[2], x[3]};
    n->node.window = (struct graph_window){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    add_dense(n, x, y, TENSOR_FLOAT16, TENSOR_FLOAT16, one_in(2));
    if (one_in(3))
        n->node.post[n->node.n_post++] =
            (struct graph_post){.kind = one_in(2) ? POST_LEAKY_RELU : POST_RELU, .alpha = 0.125F};
}

static void check_own_kernel(const struct net *n)
{
    if (kernel_has_avx512())
        assert_true(n->in_order);
    check_convolution(n);
}

static void check_groups(const struct net *n)
{
    if (groups_are_ours(n))
        assert_true(n->in_order);
    check_convolution(n);
}

// ---- sums and products ----

static void make_binary(struct net *n)
{
    static const enum graph_op ops[] = {GRAPH_ADD, GRAPH_SUB, GRAPH_MUL, GRAPH_MAX};
    uint32_t y[4], other[4];
    random_dims(y);
    for (int i = 0; i < 4; i++)
        other[i] = one_in(3) ? 1 : y[i];
    bool turned = one_in(2);
    n->node.op = ops[between(0, 3)];
    add_tensor(n, turned ? B : A, TENSOR_FLOAT16, y, true);
    add_tensor(n, turned ? A : B, TENSOR_FLOAT16, other, true);
    add_tensor(n, Y, TENSOR_FLOAT16, y, true);
    add_input(n, A);
    add_input(n, B);
    if (one_in(2))
        n->node.post[n->node.n_post++] =
            one_in(2) ? (struct graph_post){.kind = POST_RELU}
                      : (struct graph_post){.kind = POST_CLIP, .alpha = -1, .beta = 6};
}

// One of the operands is a constant of floats, most often one for each channel.
static void make_binary_with_constant(struct net *n)
{
    static const enum graph_op ops[] = {GRAPH_ADD, GRAPH_SUB, GRAPH_MUL, GRAPH_MAX};
    uint32_t y[4], other[4];
    random_dims(y);
    for (int i = 0; i < 4; i++)
        other[i] = i == 1 || one_in(6) ? y[i] : 1;
    bool turned = one_in(2);
    n->node.op = ops[between(0, 3)];
    add_tensor(n, turned ? B : A, TENSOR_FLOAT16, y, true);
    add_tensor(n, turned ? A : B, TENSOR_FLOAT32, other, true);
    add_tensor(n, Y, TENSOR_FLOAT16, y, true);
    make_constant(n, turned ? A : B);
    add_input(n, A);
    add_input(n, B);
    if (one_in(2))
        n->node.post[n->node.n_post++] = (struct graph_post){.kind = POST_RELU};
}

// Of the element of Y at `at`.
static float operand(const struct net *n, uint32_t i, const uint32_t at[4])
{
    const struct graph_tensor *t = &n->tensors[i];
    uint32_t own[4];
    for (int d = 0; d < 4; d++)
        own[d] = t->dims[d] == 1 ? 0 : at[d];
    return (float)value(n, i, place(t, own));
}

static float combined(const struct net *n, float a, float b)
{
    float v = n->node.op == GRAPH_ADD   ? a + b
              : n->node.op == GRAPH_SUB ? a - b
              : n->node.op == GRAPH_MUL ? a * b
              : a > b                   ? a
                                        : b;
    const struct graph_post *post = n->node.post;
    if (!n->node.n_post)
        return v;
    if (post->kind == POST_RELU)
        return v >= 0 ? v : 0;
    return !(v >= post->alpha) ? post->alpha : v > post->beta ? post->beta : v;
}

static void check_binary(const struct net *n)
{
    uint32_t at[4];
    for (size_t i = 0; i < n->tensors[Y].n_elems; i++) {
        index_of(&n->tensors[Y], i, at);
        check_bits(n, place(&n->tensors[Y], at), combined(n, operand(n, A, at), operand(n, B, at)));
    }
}

// ---- BatchNormalization ----

static void make_norm(struct net *n)
{
    uint32_t y[4];
    random_dims(y);
    n->node.op = GRAPH_BATCH_NORM;
    n->node.norm.epsilon = 0;
    add_halves(n, y, y);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t k = i ? Y + i : B;
        add_tensor(n, k, TENSOR_FLOAT32, (uint32_t[]){y[1], 1, 1, 1}, false);
        for (uint32_t c = 0; c < y[1] && i == 3; c++) // variances
            ((float *)n->values[k])[c] = (float)between(1, 9);
        make_constant(n, k);
        add_input(n, k);
    }
}

static void check_norm(const struct net *n)
{
    uint32_t at[4];
    for (size_t i = 0; i < n->tensors[Y].n_elems; i++) {
        index_of(&n->tensors[Y], i, at);
        size_t from = place(&n->tensors[Y], at), c = at[1];
        double factor = value(n, B, c) / sqrt(value(n, Y + 3, c));
        double product = (value(n, A, from) - value(n, Y + 2, c)) * factor;
        double size = (fabs(value(n, A, from)) + fabs(value(n, Y + 2, c))) * fabs(factor);
        double bias = value(n, Y + 1, c);
        check_near(n, from, product + bias, (size + fabs(bias)) * 0x1p-21);
    }
}

// ---- elements that are only moved ----

// Each value is its own number.
static void number_values(struct net *n)
{
    for (size_t i = 0; i < n->tensors[A].n_elems; i++)
        ((uint16_t *)n->values[A])[i] = (uint16_t)i;
}

static void make_reshape(struct net *n)
{
    uint32_t x[4], y[4], k = between(1, 9);
    random_dims(x);
    x[2] = k * between(1, 4);
    memcpy(y, x, sizeof y);
    y[1] *= k;
    y[2] /= k;
    bool turned = one_in(2);
    n->node.op = GRAPH_RESHAPE;
    add_halves(n, turned ? y : x, turned ? x : y);
    number_values(n);
}

static void make_transpose(struct net *n)
{
    uint32_t x[4], y[4];
    random_dims(x);
    n->node.op = GRAPH_TRANSPOSE;
    for (uint32_t i = 0; i < 4; i++)
        n->node.perm[i] = i;
    for (uint32_t i = 3; i > 0; i--) {
        uint32_t k = between(0, i), t = n->node.perm[i];
        n->node.perm[i] = n->node.perm[k];
        n->node.perm[k] = t;
    }
    for (uint32_t i = 0; i < 4; i++)
        y[i] = x[n->node.perm[i]];
    add_halves(n, x, y);
    number_values(n);
}

static void check_moved(const struct net *n)
{
    uint32_t from[4], to[4];
    for (size_t i = 0; i < n->tensors[Y].n_elems; i++) {
        index_of(&n->tensors[A], i, from);
        index_of(&n->tensors[Y], i, to);
        for (int d = 0; d < 4 && n->node.op == GRAPH_TRANSPOSE; d++)
            from[n->node.perm[d]] = to[d];
        assert_int_equal(((const uint16_t *)n->values[Y])[place(&n->tensors[Y], to)],
                         ((const uint16_t *)n->values[A])[place(&n->tensors[A], from)]);
    }
}

// ---- pools and means ----

static void make_pool(struct net *n)
{
    struct graph_window *w = &n->node.window;
    uint32_t x[4], y[4];
    choose_window(w, x, y);
    w->groups = 1;
    n->node.op = GRAPH_MAX_POOL;
    add_halves(n, x, y);
}

static void check_pool(const struct net *n)
{
    const struct graph_window *w = &n->node.window;
    const struct graph_tensor *x = &n->tensors[A];
    uint32_t at[4];
    for (size_t i = 0; i < n->tensors[Y].n_elems; i++) {
        double most = -INFINITY;
        index_of(&n->tensors[Y], i, at);
        for (uint32_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
            uint32_t iy = at[2] * w->stride[0] + k / w->kernel[1] * w->dilation[0] - w->pad[0];
            uint32_t ix = at[3] * w->stride[1] + k % w->kernel[1] * w->dilation[1] - w->pad[1];
            if (iy < x->dims[2] && ix < x->dims[3])
                most = fmax(most, value(n, A, place(x, (uint32_t[]){at[0], at[1], iy, ix})));
        }
        check_near(n, place(&n->tensors[Y], at), most, 0);
    }
}

static void make_mean(struct net *n)
{
    uint32_t x[4], y[4];
    random_dims(x);
    n->node.op = GRAPH_REDUCE_MEAN;
    n->node.axes = between(0, 15);
    for (uint32_t i = 0; i < 4; i++)
        y[i] = n->node.axes >> i & 1 ? 1 : x[i];
    add_halves(n, x, y);
}

static void check_mean(const struct net *n)
{
    const struct graph_tensor *x = &n->tensors[A], *y = &n->tensors[Y];
    double *sums = calloc(y->n_elems, 2 * sizeof *sums);
    double count = (double)x->n_elems / (double)y->n_elems;
    uint32_t at[4];
    for (size_t i = 0; i < x->n_elems; i++) {
        index_of(x, i, at);
        double v = value(n, A, place(x, at));
        for (uint32_t d = 0; d < 4; d++)
            at[d] = n->node.axes >> d & 1 ? 0 : at[d];
        sums[2 * place(y, at)] += v;
        sums[2 * place(y, at) + 1] += fabs(v);
    }
    for (size_t i = 0; i < y->n_elems; i++)
        check_near(n, i, sums[2 * i] / count, sums[2 * i + 1] / count * count * 0x1p-23);
    free(sums);
}

// ---- Softmax ----

static void make_softmax(struct net *n)
{
    uint32_t dims[4];
    random_dims(dims);
    n->node.op = GRAPH_SOFTMAX;
    n->node.axis = (int32_t)between(0, 3);
    add_halves(n, dims, dims);
    if (one_in(3))
        n->tensors[A].channels_last = false;
    if (one_in(3))
        n->tensors[Y].channels_last = false;
}

static void check_softmax(const struct net *n)
{
    const struct graph_tensor *x = &n->tensors[A];
    uint32_t at[4], other[4], axis = (uint32_t)n->node.axis;
    for (size_t i = 0; i < x->n_elems; i++) {
        double sum = 0, own;
        index_of(x, i, at);
        own = value(n, A, place(x, at));
        memcpy(other, at, sizeof other);
        for (other[axis] = 0; other[axis] < x->dims[axis]; other[axis]++)
            sum += exp(value(n, A, place(x, other)) - own);
        check_near(n, place(&n->tensors[Y], at), 1 / sum, 0x1p-19 / sum);
    }
}

// ---- activations ----

// In floats, where a unit in the last place can be seen.
static void make_activation(struct net *n)
{
    static const enum graph_post_kind kinds[] = {POST_SIGMOID, POST_SWISH, POST_EXP, POST_TANH};
    uint32_t dims[4] = {1, 1, 1, 5000};
    n->node.op = GRAPH_UNARY;
    n->node.n_post = 1;
    n->node.post[0].kind = kinds[between(0, 3)];
    add_tensor(n, A, TENSOR_FLOAT32, dims, false);
    add_tensor(n, Y, TENSOR_FLOAT32, dims, false);
    for (size_t i = 0; i < 5000; i++)
        ((float *)n->values[A])[i] = ((float)between(0, 1 << 20) - (1 << 19)) / (1 << 13);
    ((float *)n->values[A])[0] = NAN;
    ((float *)n->values[A])[1] = 1000;
    ((float *)n->values[A])[2] = -1000;
    add_input(n, A);
}

static double activated(enum graph_post_kind kind, double x)
{
    double sigmoid = 1 / (1 + exp(-x));
    return kind == POST_EXP     ? exp(x)
           : kind == POST_SWISH ? x * sigmoid
           : kind == POST_TANH  ? tanh(x)
                                : sigmoid;
}

static void check_activation(const struct net *n)
{
    for (size_t i = 0; i < 5000; i++) {
        double want = activated(n->node.post[0].kind, value(n, A, i)), got = value(n, Y, i);
        if (isnan(want) != isnan(got) || fabs(got - want) > 0x1p-22 * fabs(want) + 0x1p-126)
            fail_msg("activation %d of %g is %.9g, expected %.9g", n->node.post[0].kind,
                     value(n, A, i), got, want);
    }
}

// ---- all of them ----

struct kind {
    void (*make)(struct net *n);
    void (*check)(const struct net *n);
    unsigned cases;
};

// Our own kernel, oneDNN's for any CPU, and the emulator: a Relu leaves no NaN, and 0 of -Inf.
static void a_relu_cuts_nan_off(void **state)
{
    struct net n = {0};
    (void)state;
    add_halves(&n, (uint32_t[]){1, 4, 3, 5}, (uint32_t[]){1, 20, 3, 5});
    add_tensor(&n, B, TENSOR_FLOAT16, (uint32_t[]){20, 4, 1, 1}, false);
    make_constant(&n, B);
    add_input(&n, B);
    for (size_t i = 0; i < n.tensors[A].n_elems; i += 8)
        ((uint16_t *)n.values[A])[i] = i % 16 ? 0x7e00 : 0xfc00;
    n.node.op = GRAPH_CONV;
    n.node.window =
        (struct graph_window){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    n.node.post[n.node.n_post++] = (struct graph_post){.kind = POST_RELU};
    run_net(&n);
    for (size_t i = 0; i < n.tensors[Y].n_elems && n.in_order; i++) {
        double x = value(&n, A, i / 20 * 4), w = value(&n, B, i % 20 * 4);
        if (isnan(x) || x * w < -1e9)
            assert_true(value(&n, Y, i) == 0);
    }
    for (uint32_t i = 0; i < MOST; i++)
        free(n.values[i]);
    if (!n.in_order)
        skip();
}

// The same of a sum, which has a kernel for AVX512, and one for any CPU.
static void a_sums_relu_cuts_nan_off(void **state)
{
    struct net n = {0};
    (void)state;
    add_halves(&n, (uint32_t[]){1, 20, 3, 5}, (uint32_t[]){1, 20, 3, 5});
    add_tensor(&n, B, TENSOR_FLOAT16, (uint32_t[]){1, 20, 3, 5}, true);
    add_input(&n, B);
    for (size_t i = 0; i < n.tensors[A].n_elems; i += 2)
        ((uint16_t *)n.values[A])[i] = 0x7e00;
    n.node.op = GRAPH_ADD;
    n.node.post[n.node.n_post++] = (struct graph_post){.kind = POST_RELU};
    run_net(&n);
    for (size_t i = 0; i < n.tensors[Y].n_elems; i += 2)
        assert_true(value(&n, Y, i) == 0);
    free_net(&n);
}

static void kind_of_net(void **state)
{
    const struct kind *k = *state;
    SEED_EACH (seed, k->cases) {
        struct net n = {0};
        srand((unsigned)seed);
        k->make(&n);
        run_net(&n);
        k->check(&n);
        free_net(&n);
    }
}

int main(void)
{
    static struct kind convolution = {make_convolution, check_convolution, CASES},
                       few = {make_few_pixels, check_own_kernel, CASES},
                       large = {make_large_weights, check_own_kernel, 12},
                       one = {make_one_channel, check_convolution, CASES},
                       groups = {make_groups, check_groups, CASES},
                       binary = {make_binary, check_binary, 2 * CASES},
                       with_constant = {make_binary_with_constant, check_binary, CASES},
                       norm = {make_norm, check_norm, CASES},
                       reshape = {make_reshape, check_moved, 2 * CASES},
                       turned = {make_transpose, check_moved, 2 * CASES},
                       pool = {make_pool, check_pool, CASES}, mean = {make_mean, check_mean, CASES},
                       softmax = {make_softmax, check_softmax, CASES},
                       activation = {make_activation, check_activation, 12};
    const struct CMUnitTest tests[] = {
        {"convolution", kind_of_net, NULL, NULL, &convolution},
        {"convolution of few pixels", kind_of_net, NULL, NULL, &few},
        {"convolution by large weights", kind_of_net, NULL, NULL, &large},
        {"convolution to one channel", kind_of_net, NULL, NULL, &one},
        {"groups", kind_of_net, NULL, NULL, &groups},
        {"binary", kind_of_net, NULL, NULL, &binary},
        {"binary, with a constant", kind_of_net, NULL, NULL, &with_constant},
        {"norm", kind_of_net, NULL, NULL, &norm},
        cmocka_unit_test(a_relu_cuts_nan_off),
        cmocka_unit_test(a_sums_relu_cuts_nan_off),
        {"reshape", kind_of_net, NULL, NULL, &reshape},
        {"transpose", kind_of_net, NULL, NULL, &turned},
        {"pool", kind_of_net, NULL, NULL, &pool},
        {"mean", kind_of_net, NULL, NULL, &mean},
        {"softmax", kind_of_net, NULL, NULL, &softmax},
        {"activation", kind_of_net, NULL, NULL, &activation},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
