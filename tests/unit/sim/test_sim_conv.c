// Integer convolutions, transposed ones too, of random shapes, zero points and stages, against sums
// counted one by one and stages computed in 64-bit integers. What the CPU computes them with is
// chosen by DNNL_MAX_CPU_ISA (CMakeLists.txt). Images are copies: of inputs of a model some kernels
// expect other numbers.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "tests/support/seed.h"

#define CASES         2400
#define WIDE_CASES    200
#define DEEP_CASES    300
#define GROUPED_CASES 800
#define MOST_WORK     1000000 // multiplications in a case
#define MOST_OC       160

#define GUARD      (64 << 10) // bytes behind the arena and behind scratch memory
#define GUARD_BYTE 0xa5

enum { X, W, Y, ADDEND, GIVEN, N_TENSORS };

struct net {
    struct graph graph;
    struct graph_tensor tensors[N_TENSORS];
    struct graph_node nodes[2], *node; // a copy, and the convolution
    struct graph_conv_quant quant;
    int8_t *values[N_TENSORS];
    struct graph_stages stages;
    double scale[MOST_OC];
    int16_t mul[MOST_OC];
    int32_t bias[MOST_OC];
    int16_t nz[MOST_OC];
};

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(rand() % (high - low + 1));
}

static bool one_in(int32_t n)
{
    return between(1, n) == 1;
}

// ---- a random net ----

static void choose_channels(struct graph_window *w, uint32_t *ic, uint32_t *oc)
{
    *ic = (uint32_t)(one_in(3) ? 4 * between(1, 20) : between(1, 40));
    *oc = (uint32_t)(one_in(3) ? 16 * between(1, 9) : between(1, MOST_OC));
    w->groups = 1;
    if (one_in(8)) {
        w->groups = *ic;
        *oc = *ic;
    } else if (one_in(10)) {
        w->groups = 2;
        *ic *= 2;
        *oc += *oc % 2;
    }
}

// A dimension of the image of a transposed convolution, and what becomes of it.
static void choose_transposed_size(struct graph_window *w, int i, uint32_t *in, uint32_t *out)
{
    w->kernel[i] = (uint32_t)between(1, 5);
    w->stride[i] = (uint32_t)between(1, 4);
    w->dilation[i] = (uint32_t)(one_in(6) ? 2 : 1);
    uint32_t reach = w->dilation[i] * (w->kernel[i] - 1);
    w->pad[i] = (uint32_t)(one_in(2) ? 0 : between(0, (int)reach));
    *in = (uint32_t)between(1, one_in(4) ? 40 : 12);
    uint32_t after = (uint32_t)between(0, (int)(reach + w->stride[i]) - 1);
    uint32_t whole = (*in - 1) * w->stride[i] + 1 + after;
    w->pad[i] = whole > w->pad[i] ? w->pad[i] : 0;
    *out = whole - w->pad[i];
}

// A dimension of the image, and what becomes of it.
static void choose_size(struct graph_window *w, int i, uint32_t *in, uint32_t *out)
{
    bool plain = one_in(3);
    w->kernel[i] = (uint32_t)(plain ? 1 : between(1, 5));
    w->stride[i] = (uint32_t)(plain ? 1 : between(1, 3));
    w->dilation[i] = (uint32_t)(one_in(4) ? between(1, 3) : 1);
    w->pad[i] = (uint32_t)(plain ? 0 : between(0, 3));
    w->pad[2 + i] = (uint32_t)(plain ? 0 : between(0, 3));
    uint32_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    uint32_t pads = w->pad[i] + w->pad[2 + i];
    *in = reach + (uint32_t)between(0, one_in(4) ? 60 : 12);
    if (one_in(8)) // an image that is smaller than a window, as far as that fits in
        *in = pads + 1 < reach ? reach - pads : 1;
    *out = (*in + pads - reach) / w->stride[i] + 1;
}

static void make_tensor(struct net *n, int i, const uint32_t *dims, float scale)
{
    struct error e;
    struct graph_tensor *t = &n->tensors[i];
    *t = (struct graph_tensor){.name = "t",
                               .type = TENSOR_INT8,
                               .n_dims = 4,
                               .channels_last = i != W,
                               .quantized = true,
                               .scale = scale,
                               .zp = one_in(4) ? between(0, 1) * 255 - 128 : between(-128, 127),
                               .arena_offset = GRAPH_NO_OFFSET};
    memcpy(t->dims, dims, 4 * sizeof *dims);
    assert_int_equal(graph_tensor_measure(t, &e), 0);
    n->values[i] = malloc(t->size);
    bool extreme = one_in(6);
    for (size_t k = 0; k < t->size; k++)
        n->values[i][k] = (int8_t)(extreme ? between(0, 1) * 255 - 128 : between(-128, 127));
}

// The nearest factor of at most `bits` bits over a power of two.
static struct graph_scaling scaling_of(double factor, int bits)
{
    int shift = 0;
    while (shift < 40 && ldexp(factor, shift + 1) < (1 << bits) - 1)
        shift++;
    int32_t whole = (int32_t)rint(ldexp(factor, shift));
    return (struct graph_scaling){whole ? whole : 1, (uint32_t)shift};
}

static struct graph_scaling power_of_two(double factor)
{
    int shift = -(int)round(log2(factor));
    return (struct graph_scaling){1 << (shift < 0 ? -shift : 0), (uint32_t)(shift < 0 ? 0 : shift)};
}

// As converters make them: LeakyRelu keeps the bits of what is not negative. Ties: powers of two.
static void choose_leaky(struct graph_stages *t, bool ties)
{
    uint32_t more = one_in(4) ? 1 : 0;
    t->mul_shift[0] = more;
    t->mul_shift[1] = 14 + more;
    t->bn[1] = (struct graph_scaling){ties ? 1 << between(8, 13) : between(100, 16000), 0};
    if (one_in(3))
        t->bn[0].shift = t->bn[1].shift = (uint32_t)between(1, 8);
}

// Steps of the output that a sum counts: few enough for most outputs to lie within bounds.
static void choose_out(struct net *n, size_t taps, bool ties)
{
    struct graph_stages *t = &n->stages;
    double steps = between(10, 200) / (6000 * sqrt((double)taps));
    double before = ldexp(ldexp(16384, -(int)t->mul_shift[0]), -(int)t->bn[0].shift);
    t->out = ties ? power_of_two(steps / before) : scaling_of(steps / before, 15);
    t->zp = n->tensors[Y].zp;
    t->has_addend = true;
    t->addend_offset = -n->tensors[ADDEND].zp;
    double addend = between(1, 20) / 10.0 / ldexp(t->out.factor, -(int)t->out.shift);
    t->addend = ties ? power_of_two(addend) : scaling_of(addend, 15);
}

// A channel that hardly counts: its factor is next to nothing, and may have either sign.
static void choose_dead_channel(struct net *n, uint32_t o)
{
    n->mul[o] = (int16_t)(one_in(2) ? 0 : between(-9, 9));
    n->bias[o] = between(-40000000, 40000000);
}

static void choose_quant(struct net *n, size_t taps, bool leaky)
{
    uint32_t oc = n->tensors[Y].dims[1];
    bool ties = one_in(3), all_alike = one_in(5), dead = one_in(6);
    n->stages = (struct graph_stages){.mul = n->mul,
                                      .mul_shift = {14, 14},
                                      .bn = {{1, 0}, {1, 0}},
                                      .bounds = {INT32_MIN, INT32_MAX},
                                      .sum_bounds = {INT32_MIN, INT32_MAX}};
    if (leaky)
        choose_leaky(&n->stages, ties);
    choose_out(n, taps, ties);
    if (one_in(10))
        n->stages.bounds[1] = between(0, 100000);
    n->quant = (struct graph_conv_quant){
        .n = oc, .scale = n->scale, .bias = n->bias, .nz = n->nz, .stages = &n->stages};
    for (uint32_t o = 0; o < oc; o++) {
        n->mul[o] = (int16_t)(ties ? 1 << between(12, 14) : between(4000, 32767));
        n->bias[o] = between(-20000, 20000);
        n->nz[o] = (int16_t)(all_alike ? 0 : between(-128, 128));
        if (dead && one_in(5))
            choose_dead_channel(n, o);
    }
}

// True: there is a LeakyRelu.
static bool choose_posts(struct net *n)
{
    struct graph_node *node = n->node;
    bool leaky = one_in(4);
    if (leaky)
        node->post[node->n_post++] = (struct graph_post){.kind = POST_LEAKY_RELU};
    if (one_in(4))
        node->post[node->n_post++] = (struct graph_post){.kind = POST_ADD, .operand = ADDEND};
    if (one_in(3))
        node->post[node->n_post++] = (struct graph_post){.kind = POST_RELU};
    return leaky;
}

// A shape with few enough multiplications.
static void choose_shape(struct net *n, uint32_t x[4], uint32_t y[4])
{
    struct graph_window *w = &n->node->window;
    uint64_t work;
    if (one_in(6))
        n->node->op = GRAPH_CONV_TRANSPOSE;
    do {
        choose_channels(w, &x[1], &y[1]);
        void (*choose)(struct graph_window * w, int i, uint32_t *in, uint32_t *out) =
            n->node->op == GRAPH_CONV ? choose_size : choose_transposed_size;
        choose(w, 0, &x[2], &y[2]);
        choose(w, 1, &x[3], &y[3]);
        x[0] = y[0] = (uint32_t)(one_in(4) ? 2 : 1);
        work =
            (uint64_t)y[0] * y[1] * y[2] * y[3] * (x[1] / w->groups) * w->kernel[0] * w->kernel[1];
    } while (work > MOST_WORK || y[1] > MOST_OC);
}

// One of two groups of whole vectors of channels, wide, and padded above and below alone.
static void choose_wide_shape(struct net *n, uint32_t x[4], uint32_t y[4])
{
    struct graph_window *w = &n->node->window;
    *w = (struct graph_window){.kernel = {(uint32_t)between(2, 3), (uint32_t)between(1, 3)},
                               .stride = {1, 1},
                               .dilation = {(uint32_t)between(1, 2), (uint32_t)between(1, 2)},
                               .pad = {1, 0, 1, 0},
                               .groups = 2};
    uint32_t high = w->dilation[0] * (w->kernel[0] - 1), wide = w->dilation[1] * (w->kernel[1] - 1);
    x[0] = y[0] = 1;
    x[1] = 32 * (uint32_t)between(1, 5);
    y[1] = 32 * (uint32_t)between(1, 2);
    y[2] = (uint32_t)between(1, 3);
    y[3] = (uint32_t)between(33, 60);
    x[2] = y[2] + high > 2 ? y[2] + high - 2 : 1;
    y[2] = x[2] + 2 - high;
    x[3] = y[3] + wide;
}

// One group of many channels.
static void choose_deep_shape(struct net *n, uint32_t x[4], uint32_t y[4])
{
    struct graph_window *w = &n->node->window;
    do {
        choose_size(w, 0, &x[2], &y[2]);
        choose_size(w, 1, &x[3], &y[3]);
        w->groups = x[0] = y[0] = 1;
        x[1] = (uint32_t)between(90, 200);
        y[1] = (uint32_t)between(1, 40);
    } while ((uint64_t)y[1] * y[2] * y[3] * x[1] * w->kernel[0] * w->kernel[1] > MOST_WORK);
}

// Several groups, of few and of many channels, whose vectors groups begin and end in.
static void choose_grouped_shape(struct net *n, uint32_t x[4], uint32_t y[4])
{
    struct graph_window *w = &n->node->window;
    do {
        w->groups = (uint32_t)between(2, 24);
        x[1] = w->groups * (uint32_t)(one_in(2) ? 4 << between(0, 3) : between(1, 20));
        y[1] = w->groups * (uint32_t)(one_in(2) ? 4 << between(0, 4) : between(1, 80));
        choose_size(w, 0, &x[2], &y[2]);
        choose_size(w, 1, &x[3], &y[3]);
        x[0] = y[0] = (uint32_t)(one_in(4) ? 2 : 1);
    } while (y[1] > MOST_OC || (uint64_t)x[0] * y[1] * y[2] * y[3] * (x[1] / w->groups) *
                                       w->kernel[0] * w->kernel[1] >
                                   MOST_WORK);
}

typedef void (*choose_function)(struct net *n, uint32_t x[4], uint32_t y[4]);

static void make_net(struct net *n, choose_function choose)
{
    static const int32_t inputs[] = {X, W}, outputs[] = {Y}, given[] = {GIVEN}, copied[] = {X};
    static const uint32_t first[] = {GIVEN, ADDEND}, last[] = {Y};
    uint32_t x[4], y[4];
    *n = (struct net){.nodes = {{.op = GRAPH_RESHAPE, .name = "x", .type = "Reshape"},
                                {.op = GRAPH_CONV, .name = "n", .type = "Conv"}},
                      .node = &n->nodes[1]};
    struct graph_window *w = &n->node->window;
    choose(n, x, y);
    uint32_t weight[4] = {y[1], x[1] / w->groups, w->kernel[0], w->kernel[1]};
    make_tensor(n, X, x, 1);
    n->tensors[GIVEN] = n->tensors[X];
    n->nodes[0].inputs = given;
    n->nodes[0].outputs = copied;
    n->nodes[0].n_inputs = n->nodes[0].n_outputs = 1;
    make_tensor(n, W, weight, 1);
    make_tensor(n, Y, y, one_in(2) ? 1 : 0.37f);
    make_tensor(n, ADDEND, y, one_in(2) ? 0.5f : 0.71f);
    n->tensors[W].constant = true;
    n->tensors[W].data = (struct bytes){(uint8_t *)n->values[W], n->tensors[W].size};
    bool leaky = choose_posts(n);
    choose_quant(n, (size_t)weight[1] * weight[2] * weight[3], leaky);
    n->node->quant = &n->quant;
    n->node->inputs = inputs;
    n->node->n_inputs = 2;
    n->node->outputs = outputs;
    n->node->n_outputs = 1;
    n->graph = (struct graph){.n_tensors = N_TENSORS,
                              .n_nodes = 2,
                              .n_inputs = 2,
                              .n_outputs = 1,
                              .tensors = n->tensors,
                              .nodes = n->nodes,
                              .inputs = first,
                              .outputs = last};
}

static void free_net(struct net *n)
{
    for (int i = 0; i < N_TENSORS; i++)
        free(n->values[i]);
}

// ---- what must come out ----

static size_t index_of(const struct graph_tensor *t, size_t b, size_t ch, size_t y, size_t x)
{
    return ((b * t->dims[2] + y) * t->dims[3] + x) * t->dims[1] + ch;
}

// The line or column that is under tap k of the window of output `at`; -1: none is. A transposed
// convolution's stride is between the pixels of the image.
static int64_t under(const struct net *n, int dim, uint32_t at, uint32_t k)
{
    const struct graph_window *w = &n->node->window;
    uint32_t size = n->tensors[X].dims[2 + dim];
    int64_t tap = (int64_t)k * w->dilation[dim], pad = w->pad[dim], i;
    if (n->node->op == GRAPH_CONV) {
        i = (int64_t)at * w->stride[dim] + tap - pad;
    } else {
        i = at + tap - (w->dilation[dim] * (w->kernel[dim] - 1) - pad);
        i = i % w->stride[dim] ? -1 : i / w->stride[dim];
    }
    return i < size ? i : -1;
}

static int64_t sum_of(const struct net *n, const uint32_t at[4])
{
    const struct graph_window *w = &n->node->window;
    const struct graph_tensor *x = &n->tensors[X], *weight = &n->tensors[W];
    uint32_t inputs = weight->dims[1], o = at[1],
             first = o / (weight->dims[0] / w->groups) * inputs;
    int64_t sum = n->bias[o];
    for (uint32_t ky = 0; ky < w->kernel[0]; ky++)
        for (uint32_t kx = 0; kx < w->kernel[1]; kx++) {
            int64_t iy = under(n, 0, at[2], ky), ix = under(n, 1, at[3], kx);
            if (iy < 0 || ix < 0)
                continue;
            for (uint32_t i = 0; i < inputs; i++) {
                size_t k = ((o * inputs + i) * w->kernel[0] + ky) * w->kernel[1] + kx;
                int32_t v = n->values[X][index_of(x, at[0], first + i, (size_t)iy, (size_t)ix)];
                sum += (int64_t)(v - x->zp) * (n->values[W][k] + n->nz[o]);
            }
        }
    return sum;
}

// x / 2^shift to the nearest integer, ties to even.
static int64_t shifted(int64_t x, uint32_t shift)
{
    int64_t whole = x >> shift, rest = x - whole * (INT64_C(1) << shift);
    int64_t twice = 2 * rest, one = INT64_C(1) << shift;
    return whole + (twice > one || (twice == one && (whole & 1)));
}

static int64_t scaled(int64_t x, struct graph_scaling s)
{
    return shifted(x * s.factor, s.shift);
}

static int64_t within(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int8_t expected(const struct net *n, const uint32_t at[4])
{
    const struct graph_stages *t = &n->stages;
    const struct graph_tensor *a = &n->tensors[ADDEND];
    int64_t p = sum_of(n, at) * n->mul[at[1]];
    int64_t v = within(shifted(p, t->mul_shift[p < 0]), INT32_MIN, INT32_MAX);
    v = within(scaled(v, t->bn[v < 0]), t->bounds[0], t->bounds[1]);
    for (uint32_t i = 0; i < n->node->n_post; i++) {
        int8_t addend = n->values[ADDEND][index_of(a, at[0], at[1], at[2], at[3])];
        if (n->node->post[i].kind == POST_ADD)
            v = within(v + scaled(addend + t->addend_offset, t->addend), INT32_MIN, INT32_MAX);
        else if (n->node->post[i].kind == POST_RELU)
            v = v < 0 ? 0 : v;
    }
    v = shifted(v * t->out.factor + t->zp * (INT64_C(1) << t->out.shift), t->out.shift);
    return (int8_t)within(v, -128, 127);
}

static void compare(const struct net *n, const int8_t *got)
{
    const struct graph_tensor *y = &n->tensors[Y];
    uint32_t at[4];
    for (at[0] = 0; at[0] < y->dims[0]; at[0]++)
        for (at[1] = 0; at[1] < y->dims[1]; at[1]++)
            for (at[2] = 0; at[2] < y->dims[2]; at[2]++)
                for (at[3] = 0; at[3] < y->dims[3]; at[3]++) {
                    int8_t v = got[index_of(y, at[0], at[1], at[2], at[3])], want = expected(n, at);
                    if (v != want)
                        fail_msg("[%u,%u,%u,%u] of %ux%ux%ux%u is %d, expected %d", at[0], at[1],
                                 at[2], at[3], y->dims[0], y->dims[1], y->dims[2], y->dims[3], v,
                                 want);
                }
}

// ---- memory behind what a step may write ----

static void guard_init(const struct plan *p, const struct run *r)
{
    memset(r->arena + p->arena_size - GUARD, GUARD_BYTE, GUARD);
    memset(r->scratch + p->scratch_size - GUARD, GUARD_BYTE, GUARD);
}

static void guard_check(const struct net *n, const uint8_t *guard, const char *what)
{
    const uint32_t *x = n->tensors[X].dims, *y = n->tensors[Y].dims;
    const struct graph_window *w = &n->node->window;
    for (size_t i = GUARD; i-- > 0;)
        if (guard[i] != GUARD_BYTE)
            fail_msg("%zu bytes are written behind %s: %ux%ux%ux%u -> %ux%ux%u, kernel %ux%u, "
                     "%u groups",
                     i + 1, what, x[0], x[1], x[2], x[3], y[1], y[2], y[3], w->kernel[0],
                     w->kernel[1], w->groups);
}

// Weights of which four times an image's byte fit 16 bits more or less often, and so just fit, and
// images whose zero point is low.
static void make_small_weights(struct net *n)
{
    int32_t most = between(20, 90), same = one_in(3) ? between(56, 66) : 0;
    for (size_t k = 0; k < n->tensors[W].size; k++) {
        int32_t sign = one_in(50) ? -1 : 1;
        n->values[W][k] = (int8_t)(same ? sign * same : between(-most, most));
    }
    n->tensors[X].zp = n->tensors[GIVEN].zp = between(-128, -90);
}

// Whether AVX2 multiplies its quads in pairs.
static bool is_paired(const struct plan *p)
{
    const struct conv *c = p->steps[p->n_steps - 1].state;
    return c->kernel == CONV_VNNI && c->vnni->paired;
}

static void check_convolutions(choose_function choose, void (*change)(struct net *n),
                               uint64_t n_cases)
{
    bool paired = !change || !dnn_has_avx2() || dnn_int8_is_exact();
    SEED_EACH (seed, n_cases) {
        struct net n;
        struct plan p;
        struct run r;
        struct error e;
        srand((unsigned)seed);
        make_net(&n, choose);
        if (change)
            change(&n);
        if (plan_init(&p, &n.graph, &e) < 0)
            fail_msg("%s", e.text);
        paired = paired || is_paired(&p);
        p.arena_size += GUARD;
        p.scratch_size += GUARD;
        if (run_init(&r, &p, &e) < 0)
            fail_msg("%s", e.text);
        guard_init(&p, &r);
        memcpy(run_tensor(&r, GIVEN), n.values[X], n.tensors[X].size);
        memcpy(run_tensor(&r, ADDEND), n.values[ADDEND], n.tensors[ADDEND].size);
        assert_int_equal(run_steps(&r, &e), 0);
        guard_check(&n, r.arena + p.arena_size - GUARD, "the arena");
        guard_check(&n, r.scratch + p.scratch_size - GUARD, "scratch memory");
        compare(&n, run_tensor(&r, Y));
        assert_memory_equal(run_tensor(&r, X), n.values[X], n.tensors[X].size);
        run_done(&r);
        plan_done(&p);
        free_net(&n);
    }
    if (seed_tries_all())
        assert_true(paired); // or what is compared here has not run
}

static void random_convolutions(void **state)
{
    (void)state;
    check_convolutions(choose_shape, NULL, CASES);
}

// oneDNN 2.6 writes behind some of these with AMX.
static void wide_convolutions(void **state)
{
    (void)state;
    check_convolutions(choose_wide_shape, NULL, WIDE_CASES);
}

static void deep_convolutions(void **state)
{
    (void)state;
    check_convolutions(choose_deep_shape, make_small_weights, DEEP_CASES);
}

static void grouped_convolutions(void **state)
{
    (void)state;
    check_convolutions(choose_grouped_shape, NULL, GROUPED_CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_convolutions), cmocka_unit_test(wide_convolutions),
        cmocka_unit_test(deep_convolutions), cmocka_unit_test(grouped_convolutions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
