// Tensors that share memory: random graphs compute what they compute when each tensor has its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "tests/support/seed.h"

#define N_NODES   40
#define N_TENSORS (N_NODES + 2)
#define MOST      512 // elements of a tensor
#define GRAPHS    200

struct net {
    struct graph_tensor tensors[N_TENSORS];
    struct graph_node nodes[N_NODES];
    int32_t edges[N_NODES][3]; // two inputs, the output
    uint32_t inputs[2], outputs[N_TENSORS];
    float values[N_TENSORS][MOST]; // as they must be
    bool read[N_TENSORS];
    struct graph graph;
};

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static void set_size(struct graph_tensor *t, uint32_t n)
{
    *t = (struct graph_tensor){.name = "t",
                               .type = TENSOR_FLOAT32,
                               .n_dims = 2,
                               .dims = {1, n},
                               .n_elems = n,
                               .size = n * sizeof(float),
                               .arena_offset = GRAPH_NO_OFFSET};
}

// a + b in place, or both one after the other; where they do not fit, -a in place.
static void add_node(struct net *n, uint32_t i)
{
    uint32_t y = i + 2, a = below(y), b = below(y), sizes[2];
    sizes[0] = n->tensors[a].dims[1];
    sizes[1] = n->tensors[b].dims[1];
    struct graph_node *node = &n->nodes[i];
    *node = (struct graph_node){.name = "n", .type = "n", .op = GRAPH_UNARY, .n_inputs = 2};
    if (sizes[0] == sizes[1] && below(4))
        node->op = GRAPH_ADD;
    else if (sizes[0] + sizes[1] <= MOST)
        node->op = GRAPH_CONCAT;
    bool joins = node->op == GRAPH_CONCAT, negates = node->op == GRAPH_UNARY;
    set_size(&n->tensors[y], sizes[0] + (joins ? sizes[1] : 0));
    if (joins)
        node->axis = 1;
    if (negates) {
        node->n_inputs = node->n_post = 1;
        node->post[0].kind = POST_NEG;
    }
    for (uint32_t k = 0; k < n->tensors[y].dims[1]; k++) {
        float second = n->values[b][joins && k >= sizes[0] ? k - sizes[0] : k];
        float first = n->values[a][k < sizes[0] ? k : 0];
        n->values[y][k] = negates        ? -first
                          : !joins       ? first + second
                          : k < sizes[0] ? first
                                         : second;
    }
    memcpy(n->edges[i], (int32_t[]){(int32_t)a, (int32_t)b, (int32_t)y}, sizeof n->edges[i]);
    node->inputs = n->edges[i];
    node->outputs = &n->edges[i][2];
    node->n_outputs = 1;
    n->read[a] = true;
    n->read[b] = n->read[b] || !negates;
}

// What nobody reads is an output, and a few others.
static void make_net(struct net *n)
{
    *n = (struct net){.inputs = {0, 1}};
    for (uint32_t i = 0; i < 2; i++) {
        set_size(&n->tensors[i], 16 + below(3) * 8);
        for (uint32_t k = 0; k < MOST; k++)
            n->values[i][k] = (float)below(1000);
    }
    for (uint32_t i = 0; i < N_NODES; i++)
        add_node(n, i);
    n->graph = (struct graph){.n_tensors = N_TENSORS,
                              .n_nodes = N_NODES,
                              .n_inputs = 2,
                              .tensors = n->tensors,
                              .nodes = n->nodes,
                              .inputs = n->inputs,
                              .outputs = n->outputs};
    for (uint32_t i = 2; i < N_TENSORS; i++)
        if (!n->read[i] || below(10) == 0)
            n->outputs[n->graph.n_outputs++] = i;
}

static void check_run(const struct net *n, const struct plan *p)
{
    struct run r;
    struct error e;
    assert_int_equal(run_init(&r, p, &e), 0);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(run_tensor(&r, i), n->values[i], n->tensors[i].size);
    assert_int_equal(run_steps(&r, &e), 0);
    for (uint32_t i = 0; i < n->graph.n_outputs; i++) {
        uint32_t t = n->outputs[i];
        assert_memory_equal(run_tensor(&r, t), n->values[t], n->tensors[t].size);
    }
    run_done(&r);
}

static void sharing_changes_no_number(void **state)
{
    (void)state;
    static struct net net;
    uint64_t shared = 0, apart = 0;
    SEED_EACH (seed, GRAPHS) {
        struct plan p;
        struct error e;
        srand((unsigned)seed);
        make_net(&net);
        if (plan_init(&p, &net.graph, &e) < 0)
            fail_msg("%s", e.text);
        check_run(&net, &p);
        shared += p.arena_size;
        for (uint32_t t = 0; t < N_TENSORS; t++)
            apart += net.tensors[t].size;
        plan_done(&p);
    }
    assert_cmp(shared, <, apart);
}

static void a_place_of_the_file_is_kept_unless_it_is_taken(void **state)
{
    (void)state;
    static struct net net;
    struct plan p;
    struct error e;
    srand(1);
    make_net(&net);
    net.graph.arena_size = 1 << 20;
    net.tensors[0].arena_offset = net.tensors[1].arena_offset = 1 << 19; // both live from the start
    assert_int_equal(plan_init(&p, &net.graph, &e), 0);
    assert_int_equal(p.offsets[0], 1 << 19);
    assert_int_not_equal(p.offsets[1], 1 << 19);
    assert_int_equal(p.arena_size, 1 << 20);
    check_run(&net, &p);
    plan_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing_changes_no_number),
        cmocka_unit_test(a_place_of_the_file_is_kept_unless_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
