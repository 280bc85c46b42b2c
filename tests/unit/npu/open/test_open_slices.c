// When a node of many tasks is done in parts, and how many tasks these have.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "npu/open/open_slices.h"

enum { FIRST, LONG, LAST, N_NODES };

// Three nodes; the one in the middle has the tasks 1 to 6, of which 2 and 3, 4 and 5 stay together.
struct case_of {
    bool fronts[N_NODES], inside[8];
    atomic_uint us[N_NODES];
    struct rknn_range tasks[N_NODES];
    struct npu_model model;
};

static const atomic_bool no = false, yes = true;

static void begin(struct case_of *c)
{
    *c = (struct case_of){.fronts = {true, true, true},
                          .inside = {[2] = true, [4] = true, [6] = true},
                          .tasks = {[FIRST] = {0, 1}, [LONG] = {1, 6}, [LAST] = {7, 1}}};
    c->model.file.n_nodes = N_NODES;
    c->model.node_us = c->us;
    c->model.cuts.one[0] = c->fronts;
    c->model.cuts.tasks = c->inside;
    c->model.program.one[0] = (struct rknn_schedule){.n_cores = 1, .tasks = c->tasks};
}

static bool divides(const struct case_of *c, uint32_t node, const struct npu_slices *slices)
{
    return open_slices_divide(&c->model, node, &c->model.program.one[0], slices);
}

// The sizes of all parts, as the digits of a number.
static unsigned parts(const struct case_of *c, uint32_t us, const atomic_bool *wanted)
{
    struct npu_slices slices = {.us = us, .wanted = wanted};
    unsigned ret = 0;
    for (uint32_t done = 0, n; done < c->tasks[LONG].n; done += n) {
        n = open_slices_part(&c->model, LONG, &c->tasks[LONG], done, &slices);
        assert_cmp(n, >, 0);
        ret = 10 * ret + n;
    }
    return ret;
}

static void long_nodes_are_divided(void **state)
{
    struct npu_slices slices = {.us = 2000, .wanted = &no};
    struct case_of c;
    (void)state;
    begin(&c);
    assert_true(divides(&c, LONG, &slices)); // nobody knows how long it takes
    assert_false(divides(&c, LONG, NULL));
    assert_false(divides(&c, FIRST, &slices)); // one task
    open_slices_divided(&c.model, LONG, 1500);
    assert_false(divides(&c, LONG, &slices));
    open_slices_divided(&c.model, LONG, 2500);
    assert_true(divides(&c, LONG, &slices));
    // No other node is to be in its segments.
    c.fronts[LONG] = false;
    assert_false(divides(&c, LONG, &slices));
    c.fronts[LONG] = true;
    c.fronts[LAST] = false;
    assert_false(divides(&c, LONG, &slices));
    c.tasks[LAST].n = 0; // it has nothing to do
    assert_true(divides(&c, LONG, &slices));
}

static void several_cores_are_not(void **state)
{
    struct npu_slices slices = {.us = 2000, .wanted = &no};
    struct rknn_range two[2 * N_NODES] = {[2 * LONG] = {0, 3}, [2 * LONG + 1] = {3, 3}};
    struct case_of c;
    (void)state;
    begin(&c);
    c.model.program.several[0] = (struct rknn_schedule){.n_cores = 2, .tasks = two};
    c.model.cuts.several[0] = c.fronts;
    assert_false(open_slices_divide(&c.model, LONG, &c.model.program.several[0], &slices));
}

static void parts_are_as_long_as_slices(void **state)
{
    struct case_of c;
    (void)state;
    begin(&c);
    assert_int_equal(parts(&c, 2000, &no), 1221); // not known: each by itself
    open_slices_divided(&c.model, LONG, 5999);
    assert_int_equal(parts(&c, 500, &no), 1221); // 1000 us a task
    assert_int_equal(parts(&c, 2000, &no), 1221);
    assert_int_equal(parts(&c, 3000, &no), 33);
    assert_int_equal(parts(&c, 4999, &no), 33);
    assert_int_equal(parts(&c, 5000, &no), 51);
    assert_int_equal(parts(&c, 5000, &yes), 1221); // others wait
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_nodes_are_divided),
                                       cmocka_unit_test(several_cores_are_not),
                                       cmocka_unit_test(parts_are_as_long_as_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
