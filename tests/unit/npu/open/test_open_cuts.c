// Where rows of nodes, and nodes, may be cut, of a shared file with tables, and of what the same
// would be if its tables, or weights, were loaded by others than those that use them.
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
#define NET_RK3588  "/models/strangers/osnet_l2norm.rk3588.rknn"
#define NET_RK3576  "/models/rknn/chain.rk3576.rknn"
#define NET_ROWS    "/models/rknn/dw.rk3576.rknn"
#define TABLE_WRITE (1u << 17)

struct case_of {
    struct sim_file bytes;
    struct rknn_file file;
    struct rknn_program program;
    const struct chip *chip;
    struct pool pool;
    bool *on_cpu;
};

static bool begin_with(struct case_of *c, const char *chip, const char *net)
{
    const char *folder = sim_shared_folder();
    struct error e = {0};
    *c = (struct case_of){.chip = chip_find(chip)};
    if (!folder || !sim_file_read(&c->bytes, "%s%s", folder, net))
        return false;
    struct bytes all = {c->bytes.data, c->bytes.size};
    if (rknn_file_open(&c->file, all, &e) < 0 ||
        rknn_program_open(&c->program, &c->file, c->chip, &e) < 0)
        fail_msg("%s", e.text);
    c->on_cpu = calloc(c->file.n_nodes, sizeof *c->on_cpu);
    return true;
}

static bool begin(struct case_of *c)
{
    return begin_with(c, "rk3588", NET);
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

// ---- inside nodes ----

#define BUFFER_AGAIN 0x3000u

// A command of a task that writes a register; NULL: it writes it not.
static uint64_t *command_of(struct case_of *c, uint32_t task, uint32_t at)
{
    const struct rknn_program_task *t = &c->program.tasks[task];
    uint64_t *found = NULL;
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((c->program.commands[i] & 0xffff) == at)
            found = &c->program.commands[i];
    return found;
}

// The first convolution inside a node that may be cut off from the task before.
static uint32_t find_inside(struct case_of *c, const struct open_cuts *cuts, uint32_t buffer)
{
    for (uint32_t node = 0; node < c->file.n_nodes; node++)
        for (uint32_t i = 1; i < range_of(c, node)->n; i++) {
            uint32_t task = range_of(c, node)->first + i;
            if (cuts->tasks[task] && command_of(c, task, buffer))
                return task;
        }
    fail_msg("no node has parts");
    return 0;
}

// What a task finds in the buffer, or in a table, the one before has loaded.
static void parts_begin_with_all_that_they_need(void **state)
{
    struct case_of c;
    (void)state;
    if (!begin(&c))
        skip();
    struct open_cuts cuts = settle(&c);
    uint32_t buffer = rknn_register_at(c.chip, CNA_CBUF_CON0);
    unsigned n_again = 0, n_behind = 0, n_cuts = 0;
    for (uint32_t node = 0; node < c.file.n_nodes; node++)
        for (uint32_t i = 1; i < range_of(&c, node)->n; i++) {
            uint32_t task = range_of(&c, node)->first + i;
            const uint64_t *command = command_of(&c, task, buffer);
            bool again = command && rknn_command_value(*command) & BUFFER_AGAIN;
            bool behind = loads(&c, task - 1);
            n_again += again;
            n_behind += behind;
            n_cuts += cuts.tasks[task];
            assert_false(cuts.tasks[task] && (again || behind));
        }
    assert_true(n_again && n_behind && n_cuts);
    end(&c);
}

static void check_used_again(const char *chip, const char *net, enum rknn_register buffer)
{
    struct case_of c;
    if (!begin_with(&c, chip, net))
        skip();
    struct open_cuts cuts = settle(&c);
    uint32_t at = rknn_register_at(c.chip, buffer), task = find_inside(&c, &cuts, at);
    uint64_t *command = command_of(&c, task, at);
    uint32_t value = rknn_command_value(*command);
    *command = rknn_command_with(*command, value | 0x1000);
    assert_false(settle(&c).tasks[task]);
    *command = rknn_command_with(*command, value);
    assert_true(settle(&c).tasks[task]);
    c.program.tasks[task - 1].interrupts = 0; // its end could not be waited for
    assert_false(settle(&c).tasks[task]);
    end(&c);
}

static void what_is_used_again_is_not_cut_off(void **state)
{
    (void)state;
    check_used_again("rk3588", NET_RK3588, CNA_CBUF_CON0);
    check_used_again("rk3576", NET_RK3576, CNA_CORE_PLAN);
}

// The second part of a picture has rows that the first one has loaded, too.
static void rows_that_are_left_are_not_cut_off(void **state)
{
    struct case_of c;
    (void)state;
    if (!begin_with(&c, "rk3576", NET_ROWS))
        skip();
    const struct rknn_range *r = NULL;
    for (uint32_t i = 0; i < c.file.n_nodes && (!r || r->n < 2); i++)
        r = range_of(&c, i);
    assert_non_null(r);
    uint32_t task = r->first + 1;
    uint64_t *fetched = command_of(&c, task, rknn_register_at(c.chip, CNA_FC_DATA_SIZE0));
    const uint64_t *size = command_of(&c, task, rknn_register_at(c.chip, CNA_DATA_SIZE0));
    assert_non_null(fetched);
    assert_non_null(size);
    assert_true((rknn_command_value(*fetched) & 0xffff) < (rknn_command_value(*size) & 0xffff));
    assert_false(settle(&c).tasks[task]);
    *fetched = rknn_command_with(*fetched, rknn_command_value(*size));
    assert_true(settle(&c).tasks[task]);
    end(&c);
}

// A node whose first task has the weights of the node before cannot begin a slice, nor come behind
// a CPU's.
static void a_node_with_the_weights_of_another(void **state)
{
    struct case_of c;
    uint32_t node, before = 0;
    uint64_t *command = NULL;
    (void)state;
    if (!begin(&c))
        skip();
    for (node = 1; node < c.file.n_nodes && !command; node++) {
        const struct rknn_range *r = range_of(&c, node);
        if (r->n && before)
            command = command_of(&c, r->first, rknn_register_at(c.chip, CNA_CBUF_CON0));
        before = r->n && !command ? node : before;
    }
    node--;
    assert_non_null(command);
    *command = rknn_command_with(*command, rknn_command_value(*command) | 0x2000);
    assert_false(settle(&c).one[0][node]);
    assert_int_equal(count(&c), 0);
    c.on_cpu[before] = true;
    settle(&c);
    assert_true(c.on_cpu[node]);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_load_their_own_tables),
        cmocka_unit_test(a_table_from_before_is_not_counted_on),
        cmocka_unit_test(parts_begin_with_all_that_they_need),
        cmocka_unit_test(what_is_used_again_is_not_cut_off),
        cmocka_unit_test(rows_that_are_left_are_not_cut_off),
        cmocka_unit_test(a_node_with_the_weights_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
