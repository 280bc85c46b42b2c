// Where rows of nodes may be cut, of a shared file with tables, and of what the same would be if
// its tables were loaded by the nodes before those that use them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/open/open_cuts.h"
#include "tests/support/sim_support.h"

#define NET         "/models/strangers/yolov5n_silu.rk3588.rknn"
#define TABLE_WRITE (1u << 17)

struct case_of {
    struct sim_file bytes;
    struct rknn_file file;
    struct rknn_program program;
    const struct chip *chip;
    struct pool pool;
    bool *on_cpu;
};

static bool begin(struct case_of *c)
{
    const char *folder = sim_shared_folder();
    struct error e = {0};
    *c = (struct case_of){.chip = chip_find("rk3588")};
    if (!folder || !sim_file_read(&c->bytes, "%s" NET, folder))
        return false;
    struct bytes all = {c->bytes.data, c->bytes.size};
    if (rknn_file_open(&c->file, all, &e) < 0 ||
        rknn_program_open(&c->program, &c->file, c->chip, &e) < 0)
        fail_msg("%s", e.text);
    c->on_cpu = calloc(c->file.n_nodes, sizeof *c->on_cpu);
    return true;
}

static void end(struct case_of *c)
{
    free(c->on_cpu);
    pool_done(&c->pool);
    rknn_program_done(&c->program);
    rknn_file_done(&c->file);
    sim_file_free(&c->bytes);
}

// One core's tasks of a node, which a test changes.
static struct rknn_range *range_of(struct case_of *c, uint32_t node)
{
    return (struct rknn_range *)&c->program.one[0].tasks[node * c->program.one[0].n_cores];
}

static bool loads(const struct case_of *c, uint32_t task)
{
    const struct rknn_program_task *t = &c->program.tasks[task];
    uint32_t at = rknn_register_at(c->chip, DPU_LUT_ACCESS_CFG);
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((c->program.commands[i] & 0xffff) == at &&
            rknn_command_value(c->program.commands[i]) & TABLE_WRITE)
            return true;
    return false;
}

static struct open_cuts settle(struct case_of *c)
{
    struct open_cuts cuts;
    struct error e = {0};
    if (open_cuts_settle(&c->program, c->chip, c->on_cpu, &c->pool, &cuts, &e) < 0)
        fail_msg("%s", e.text);
    return cuts;
}

static unsigned count(const struct case_of *c)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < c->file.n_nodes; i++)
        n += c->on_cpu[i];
    return n;
}

// The node whose first task loads the table that the next ones use, and the last node before it
// that has tasks.
static uint32_t find_loader(struct case_of *c, uint32_t *before)
{
    *before = 0;
    for (uint32_t i = 0; i < c->file.n_nodes; i++) {
        const struct rknn_range *r = range_of(c, i);
        if (r->n > 1 && loads(c, r->first) && *before)
            return i;
        *before = r->n ? i : *before;
    }
    fail_msg("no node loads a table");
    return 0;
}

static void nodes_load_their_own_tables(void **state)
{
    struct case_of c;
    (void)state;
    if (!begin(&c))
        skip();
    for (uint32_t i = 0; i < c.file.n_nodes; i += 3)
        c.on_cpu[i] = true;
    unsigned n = count(&c);
    struct open_cuts cuts = settle(&c);
    assert_int_equal(count(&c), n);
    for (uint32_t i = 0; i < c.file.n_nodes; i++)
        assert_true(cuts.one[0][i]);
    end(&c);
}

// The table's load becomes a task of the node before.
static uint32_t move_load(struct case_of *c, uint32_t *before)
{
    uint32_t node = find_loader(c, before);
    uint32_t first = range_of(c, node)->first;
    while (range_of(c, node)->n && loads(c, range_of(c, node)->first)) {
        c->program.tasks[range_of(c, node)->first].node = *before;
        range_of(c, node)->first++;
        range_of(c, node)->n--;
        range_of(c, *before)->n++;
    }
    assert_int_equal(range_of(c, *before)->first + range_of(c, *before)->n,
                     range_of(c, node)->first);
    assert_true(range_of(c, node)->first > first);
    return node;
}

static void a_table_from_before_is_not_counted_on(void **state)
{
    struct case_of c;
    uint32_t before;
    (void)state;
    if (!begin(&c))
        skip();
    uint32_t node = move_load(&c, &before);
    struct open_cuts cuts = settle(&c);
    assert_int_equal(count(&c), 0); // nobody comes between
    assert_false(cuts.one[0][node]);
    // A CPU computes what loads the table: what uses it is the CPU's, too, and nothing else.
    c.on_cpu[before] = true;
    settle(&c);
    assert_true(c.on_cpu[node]);
    assert_int_equal(count(&c), 2);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_load_their_own_tables),
        cmocka_unit_test(a_table_from_before_is_not_counted_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
