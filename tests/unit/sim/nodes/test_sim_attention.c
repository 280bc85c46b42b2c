// Attention in integers of random shapes and steps, against sums counted one by one and e^x of each
// product. What the CPU multiplies with is chosen by DNNL_MAX_CPU_ISA (CMakeLists.txt).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "tests/support/seed.h"
#include "tests/unit/sim/nodes/one_node.h"

#define CASES     300
#define MOST_KEYS 300

enum { Q, K, V, Y, N_TENSORS };

struct net {
    struct graph graph;
    struct graph_tensor tensors[N_TENSORS];
    struct graph_node node;
    int8_t *values[N_TENSORS];
};

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(rand() % (high - low + 1));
}

static bool one_in(int32_t n)
{
    return between(1, n) == 1;
}

// [heads][channels][1][columns]
static void make_tensor(struct net *n, int i, uint32_t heads, uint32_t channels, uint32_t columns)
{
    struct error e;
    struct graph_tensor *t = &n->tensors[i];
    *t = (struct graph_tensor){.name = "t",
                               .type = TENSOR_INT8,
                               .n_dims = 4,
                               .dims = {heads, channels, 1, columns},
                               .channels_last = i == Y || !one_in(3),
                               .quantized = true,
                               .scale = (float)between(50, 900) / 8192,
                               .zp = between(-128, 127),
                               .arena_offset = GRAPH_NO_OFFSET};
    assert_int_equal(graph_tensor_measure(t, &e), 0);
    n->values[i] = malloc(t->size);
    bool extreme = one_in(6);
    for (size_t k = 0; k < t->size; k++)
        n->values[i][k] = (int8_t)(extreme ? between(0, 1) * 255 - 128 : between(-128, 127));
}

// Steps as large as makes most products and weights lie within 8 bits.
static void choose_reals(struct net *n, uint32_t depth)
{
    float *reals = n->node.ref.reals;
    double query = (double)n->tensors[Q].scale * between(100, 200) / 100;
    double scale = between(100, 900) / 1024.0, more = between(-50, 50) / 100.0;
    double spread = scale * 5000 * sqrt(depth);
    reals[REF_ATTENTION_SCALE] = (float)scale;
    reals[REF_ATTENTION_QUERY] = (float)query;
    reals[REF_ATTENTION_QUERY_MORE] = (float)more;
    reals[REF_ATTENTION_TO_PRODUCT] = (float)(between(20, 90) / spread);
    reals[REF_ATTENTION_PRODUCT] = (float)between(1, 300) / 1024;
    reals[REF_ATTENTION_PRODUCT_ZERO] = (float)between(-9, 9);
    reals[REF_ATTENTION_TO_WEIGHT] = (float)between(50, 1000);
    reals[REF_ATTENTION_WEIGHT] = 1 / reals[REF_ATTENTION_TO_WEIGHT];
}

// Weights that lie between two, or next to that: all products are the same, and the weights' step
// is about an odd multiple of half of what each is.
static void make_ties(struct net *n)
{
    uint32_t keys = n->tensors[K].dims[3];
    float tie = (float)keys * ((float)between(0, 100) + 0.5F);
    float to_weight = one_in(3) ? tie : nextafterf(tie, one_in(2) ? 0 : INFINITY);
    memset(n->values[K], n->tensors[K].zp, n->tensors[K].size);
    n->node.ref.reals[REF_ATTENTION_TO_WEIGHT] = to_weight;
    n->node.ref.reals[REF_ATTENTION_WEIGHT] = 1 / to_weight;
}

static void make_net(struct net *n)
{
    uint32_t heads = (uint32_t)between(1, 3), depth = (uint32_t)between(1, 70);
    uint32_t queries = (uint32_t)between(1, 40), keys = (uint32_t)between(1, 60);
    uint32_t width = (uint32_t)between(1, 50);
    if (one_in(4)) { // several vectors and blocks of them
        queries = (uint32_t)between(1, 110);
        keys = (uint32_t)between(1, MOST_KEYS);
        width = (uint32_t)between(1, 150);
    }
    *n = (struct net){.node = {.op = GRAPH_REF, .type = "Attention"}};
    make_tensor(n, Q, heads, depth, queries);
    make_tensor(n, K, heads, depth, keys);
    make_tensor(n, V, heads, width, keys);
    make_tensor(n, Y, heads, width, queries);
    n->node.ref.op = REF_OP_ATTENTION;
    n->node.ref.dequantize = true;
    choose_reals(n, depth);
    if (one_in(10))
        make_ties(n);
    one_node_graph(&n->graph, n->tensors, &n->node, 3);
}

// ---- what must come out ----

static int32_t stored_at(const struct net *n, int i, uint32_t head, uint32_t channel,
                         uint32_t column)
{
    const struct graph_tensor *t = &n->tensors[i];
    size_t at = t->channels_last ? column * (size_t)t->dims[1] + channel
                                 : channel * (size_t)t->dims[3] + column;
    return n->values[i][head * (size_t)t->dims[1] * t->dims[3] + at];
}

static double saturated(double v)
{
    return fmin(fmax(rint(v), -128), 127);
}

static double real_of(const struct net *n, int which)
{
    return (double)n->node.ref.reals[which];
}

// The stored product of a query and a key.
static double product(const struct net *n, uint32_t head, uint32_t query, uint32_t key)
{
    const struct graph_tensor *q = &n->tensors[Q];
    double sum = 0;
    for (uint32_t d = 0; d < q->dims[1]; d++) {
        double x = (stored_at(n, Q, head, d, query) - q->zp) * (double)q->scale;
        x = saturated(x / real_of(n, REF_ATTENTION_QUERY) + real_of(n, REF_ATTENTION_QUERY_MORE));
        sum += x * (stored_at(n, K, head, d, key) - n->tensors[K].zp);
    }
    sum = rint(sum * real_of(n, REF_ATTENTION_SCALE));
    return saturated(sum * real_of(n, REF_ATTENTION_TO_PRODUCT) +
                     real_of(n, REF_ATTENTION_PRODUCT_ZERO));
}

static void compare_query(const struct net *n, uint32_t head, uint32_t query, const int8_t *got)
{
    const struct graph_tensor *v = &n->tensors[V], *y = &n->tensors[Y];
    double weights[MOST_KEYS], top = -128, sum = 0;
    for (uint32_t k = 0; k < v->dims[3]; k++) {
        weights[k] = product(n, head, query, k);
        top = fmax(top, weights[k]);
    }
    for (uint32_t k = 0; k < v->dims[3]; k++)
        sum += weights[k] = exp((weights[k] - top) * real_of(n, REF_ATTENTION_PRODUCT));
    for (uint32_t x = 0; x < v->dims[1]; x++) {
        double total = 0;
        for (uint32_t k = 0; k < v->dims[3]; k++)
            total += saturated(weights[k] / sum * real_of(n, REF_ATTENTION_TO_WEIGHT)) *
                     (stored_at(n, V, head, x, k) - v->zp);
        total *= real_of(n, REF_ATTENTION_WEIGHT) * (double)v->scale / (double)y->scale;
        int8_t want = (int8_t)saturated(total + y->zp);
        if (got[x] != want)
            fail_msg("channel %u of query %u, head %u, is %d, expected %d", x, query, head, got[x],
                     want);
    }
}

static void compare(const struct net *n, const int8_t *got)
{
    const struct graph_tensor *y = &n->tensors[Y];
    for (uint32_t head = 0; head < y->dims[0]; head++)
        for (uint32_t query = 0; query < y->dims[3]; query++, got += y->dims[1])
            compare_query(n, head, query, got);
}

static void random_heads(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        struct net n;
        struct plan p;
        struct run r;
        struct error e;
        srand((unsigned)seed);
        make_net(&n);
        assert_true(op_attention_fits(&n.graph, &n.node));
        if (plan_init(&p, &n.graph, &e) < 0 || run_init(&r, &p, &e) < 0)
            fail_msg("%s", e.text);
        for (uint32_t i = Q; i <= V; i++)
            memcpy(run_tensor(&r, i), n.values[i], n.tensors[i].size);
        assert_int_equal(run_steps(&r, &e), 0);
        compare(&n, run_tensor(&r, Y));
        run_done(&r);
        plan_done(&p);
        for (int i = 0; i < N_TENSORS; i++)
            free(n.values[i]);
    }
}

// A sum that floats would not hold, and a tensor that is no image, are left to the reference.
static void what_does_not_fit(void **state)
{
    (void)state;
    struct net n;
    srand(1);
    make_net(&n);
    n.tensors[Y].channels_last = false;
    assert_false(op_attention_fits(&n.graph, &n.node));
    n.tensors[Y].channels_last = true;
    assert_true(op_attention_fits(&n.graph, &n.node));
    n.tensors[Q].dims[1] = n.tensors[K].dims[1] = 600;
    assert_false(op_attention_fits(&n.graph, &n.node));
    for (int i = 0; i < N_TENSORS; i++)
        free(n.values[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_heads),
                                       cmocka_unit_test(what_does_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
