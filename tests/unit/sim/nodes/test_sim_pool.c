// AveragePool of ONNX's 8-bit numbers over random windows, against floats added and divided one by
// one, in the order and with the roundings of ONNX Runtime. What the CPU has is chosen by
// DNNL_MAX_CPU_ISA (CMakeLists.txt).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "tests/support/seed.h"
#include "tests/unit/sim/nodes/one_node.h"

#define CASES 400

enum { X, Y, N_TENSORS };

struct net {
    struct graph graph;
    struct graph_tensor tensors[N_TENSORS];
    struct graph_node node;
    int8_t *x;
};

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(rand() % (high - low + 1));
}

static bool one_in(int32_t n)
{
    return between(1, n) == 1;
}

static void make_tensor(struct graph_tensor *t, const uint32_t dims[4], float scale, bool unsigned_)
{
    struct error e;
    *t = (struct graph_tensor){.name = "t",
                               .type = TENSOR_INT8,
                               .n_dims = 4,
                               .dims = {dims[0], dims[1], dims[2], dims[3]},
                               .channels_last = true,
                               .quantized = true,
                               .rounds_before_zp = true,
                               .counts_from_0 = unsigned_,
                               .scale = scale,
                               .zp = one_in(3) ? -128 : between(-128, 127),
                               .arena_offset = GRAPH_NO_OFFSET};
    assert_int_equal(graph_tensor_measure(t, &e), 0);
}

// Of an image of `size`; a window is never larger.
static uint32_t choose_window(struct graph_window *w, int i, uint32_t size)
{
    w->kernel[i] = (uint32_t)between(1, size < 5 ? (int32_t)size : 5);
    w->stride[i] = (uint32_t)between(1, 3);
    w->dilation[i] = w->kernel[i] < size / 2 ? (uint32_t)between(1, 2) : 1;
    w->pad[i] = (uint32_t)between(0, (int32_t)w->kernel[i] - 1);
    w->pad[2 + i] = (uint32_t)between(0, (int32_t)w->kernel[i] - 1);
    uint32_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    return (size + w->pad[i] + w->pad[2 + i] - reach) / w->stride[i] + 1;
}

// Scales that are the same make ties of all that is even; others lie next to one now and then.
static void make_net(struct net *n)
{
    uint32_t dims[4] = {(uint32_t)between(1, 2), (uint32_t)between(1, 70), (uint32_t)between(4, 20),
                        (uint32_t)between(4, 20)};
    float scale = (float)between(50, 900) / 8192;
    bool unsigned_ = one_in(2);
    *n = (struct net){.node = {.op = GRAPH_AVERAGE_POOL, .type = "AveragePool"}};
    make_tensor(&n->tensors[X], dims, scale, unsigned_);
    n->node.window.groups = 1;
    n->node.window.count_pad = one_in(2);
    for (int i = 0; i < 2; i++)
        dims[2 + i] = choose_window(&n->node.window, i, dims[2 + i]);
    make_tensor(&n->tensors[Y], dims, one_in(3) ? scale : scale * (float)between(300, 2000) / 1000,
                unsigned_);
    n->x = malloc(n->tensors[X].size);
    bool extreme = one_in(6);
    for (size_t i = 0; i < n->tensors[X].size; i++)
        n->x[i] = (int8_t)(extreme ? between(0, 1) * 255 - 128 : between(-128, 127));
    one_node_graph(&n->graph, n->tensors, &n->node, 1);
}

// Each number that is kept is a float, and so is what is made of two of them.
static int8_t mean(const struct net *n, const uint32_t at[4])
{
    const struct graph_tensor *x = &n->tensors[X], *y = &n->tensors[Y];
    const struct graph_window *w = &n->node.window;
    volatile float sum = 0, value;
    uint32_t inside = 0;
    for (uint32_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
        int64_t iy = (int64_t)at[2] * w->stride[0] + k / w->kernel[1] * w->dilation[0] - w->pad[0];
        int64_t ix = (int64_t)at[3] * w->stride[1] + k % w->kernel[1] * w->dilation[1] - w->pad[1];
        if (iy < 0 || iy >= x->dims[2] || ix < 0 || ix >= x->dims[3])
            continue;
        size_t pixel = ((size_t)at[0] * x->dims[2] + (size_t)iy) * x->dims[3] + (size_t)ix;
        value = (float)(n->x[pixel * x->dims[1] + at[1]] - x->zp) * x->scale;
        sum = sum + value;
        inside++;
    }
    value = sum / (float)(w->count_pad ? w->kernel[0] * w->kernel[1] : inside);
    value = value / y->scale;
    int32_t moved = y->counts_from_0 ? 128 : 0;
    value = value + (float)(y->zp + moved);
    return (
        int8_t)((int32_t)rintf(fminf(fmaxf(value, (float)(-128 + moved)), (float)(127 + moved))) -
                moved);
}

static void compare(const struct net *n, const int8_t *got)
{
    const uint32_t *d = n->tensors[Y].dims;
    uint32_t at[4];
    for (at[0] = 0; at[0] < d[0]; at[0]++)
        for (at[2] = 0; at[2] < d[2]; at[2]++)
            for (at[3] = 0; at[3] < d[3]; at[3]++)
                for (at[1] = 0; at[1] < d[1]; at[1]++, got++)
                    if (*got != mean(n, at))
                        fail_msg("channel %u of pixel %u, %u of %u is %d, expected %d", at[1],
                                 at[2], at[3], at[0], *got, mean(n, at));
}

static void random_windows(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        struct net n;
        struct plan p;
        struct run r;
        struct error e;
        srand((unsigned)seed);
        make_net(&n);
        if (plan_init(&p, &n.graph, &e) < 0 || run_init(&r, &p, &e) < 0)
            fail_msg("%s", e.text);
        memcpy(run_tensor(&r, X), n.x, n.tensors[X].size);
        assert_int_equal(run_steps(&r, &e), 0);
        compare(&n, run_tensor(&r, Y));
        run_done(&r);
        plan_done(&p);
        free(n.x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
