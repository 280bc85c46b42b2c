// Nodes come behind what they need, and stay where they are else.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/order/order_nodes.h"

// A node that reads and makes one name each; "": none.
static struct order_node one(const char *const *reads, const char *const *makes)
{
    return (struct order_node){reads, makes, 1, 1};
}

static bool order_of(const struct order_node *nodes, uint32_t n, uint32_t *order)
{
    bool moved;
    struct error e;
    assert_int_equal(order_nodes(nodes, n, order, &moved, &e), 0);
    return moved;
}

static void a_good_order_stays(void **state)
{
    (void)state;
    static const char *x[] = {"x"}, *a[] = {"a"}, *b[] = {"b"}, *none[] = {""};
    const struct order_node nodes[] = {one(x, a), one(none, none), one(x, b), one(a, none)};
    uint32_t order[4];
    assert_false(order_of(nodes, 4, order));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(order[i], i);
    assert_false(order_of(nodes, 0, order));
}

// As of a converter that adds casts at the end; and what can have no order at all.
static void needs_come_right_before(void **state)
{
    (void)state;
    static const char *x[] = {"x"}, *a[] = {"a"}, *b[] = {"b"}, *c[] = {"c"}, *d[] = {"d"};
    const struct order_node nodes[] = {one(x, d), one(b, c), one(c, x), one(a, b), one(x, a)};
    const struct order_node chain[] = {one(b, c), one(d, d), one(a, b), one(x, a)};
    static const uint32_t chained[] = {3, 2, 0, 1};
    uint32_t order[5];
    assert_true(order_of(chain, 4, order));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(order[i], chained[i]);
    // A circle: c needs b, b needs a, a needs x, x needs c. All are there once.
    assert_true(order_of(nodes, 5, order));
    uint32_t there = 0;
    for (uint32_t i = 0; i < 5; i++)
        there |= 1u << order[i];
    assert_int_equal(there, 31);
}

// 200,000 nodes, the last of which has to be the first: neither the stack nor time ends.
static void long_chains_are_turned_around(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct order_node *nodes = calloc(N, sizeof *nodes);
    const char **edges = calloc(N + 1, sizeof *edges);
    uint32_t *order = calloc(N, sizeof *order);
    for (uint32_t i = 0; i <= N; i++) {
        char *name = NULL;
        assert_true(asprintf(&name, "t%u", i) > 0);
        edges[i] = name;
    }
    for (uint32_t i = 0; i < N; i++)
        nodes[i] = one(&edges[N - 1 - i], &edges[N - i]);
    assert_true(order_of(nodes, N, order));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(order[i], N - 1 - i);
    for (uint32_t i = 0; i <= N; i++)
        free((char *)(uintptr_t)edges[i]);
    free(order);
    free(edges);
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_order_stays),
        cmocka_unit_test(needs_come_right_before),
        cmocka_unit_test(long_chains_are_turned_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
