// The chip model against real files: the shares of cores that the vendor's compiler wrote into
// them, the memory sizes that they state.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/cost/estimate_graph.h"
#include "tests/support/sim_support.h"

#define NODE_SHARES 12 // slot of a Node table: work of each core in each mode

struct model {
    struct sim_file bytes;
    struct rknn_file file;
    struct graph graph;
    const struct chip *chip;
};

static void open_model(struct model *m, const char *name)
{
    struct error e = {0};
    *m = (struct model){0};
    assert_true(sim_file_read(&m->bytes, "%s/models/rknn/%s.rknn", sim_shared_folder(), name));
    struct bytes all = {m->bytes.data, m->bytes.size};
    if (rknn_file_open(&m->file, all, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    m->chip = chip_find(m->file.chip);
    if (rknn_graph(&m->graph, &m->file, m->chip, &e) < 0)
        fail_msg("%s: %s", name, e.text);
}

static void close_model(struct model *m)
{
    graph_done(&m->graph);
    rknn_file_done(&m->file);
    sim_file_free(&m->bytes);
}

static struct bytes stated_shares(struct model *m, const char *node)
{
    struct fb_table root = fb_root(&m->file.fb, "RKNN");
    struct fb_list graphs = fb_tables(&root, 2);
    struct fb_table graph = fb_list_get(&graphs, 0);
    struct fb_list nodes = fb_tables(&graph, 1);
    for (uint32_t i = 0; i < nodes.n && i < m->file.n_nodes; i++) {
        struct fb_table n = fb_list_get(&nodes, i);
        if (strcmp(m->file.nodes[i].name, node) == 0)
            return fb_vector(&n, NODE_SHARES, 4);
    }
    return (struct bytes){0};
}

static uint32_t number(struct bytes vector, size_t i)
{
    uint32_t v = 0;
    if ((i + 1) * 4 <= vector.size)
        memcpy(&v, vector.data + i * 4, 4);
    return v;
}

static void compare_node(struct model *m, const struct npu_layer *l, uint32_t node,
                         uint32_t n_cores, size_t first)
{
    const char *name = m->graph.nodes[node].name;
    struct bytes stated = stated_shares(m, name);
    bool shared = number(stated, first) != 0;
    if (shared != (l->core_work[1] != 0))
        fail_msg("%s on %u cores: is %sshared in the file", name, n_cores, shared ? "" : "not ");
    for (uint32_t core = 0; core < n_cores && shared; core++)
        if (l->core_work[core] != number(stated, first + core))
            fail_msg("%s on core %u of %u: %llu, the file has %u", name, core, n_cores,
                     (unsigned long long)l->core_work[core], number(stated, first + core));
}

// `first`: where the vector has the shares of so many cores. `strange`: a node to leave out.
static void compare(struct model *m, uint32_t n_cores, size_t first, const char *strange)
{
    struct npu_layer layers[256] = {0};
    assert_cmp(m->graph.n_nodes, <=, 256);
    estimate_shares(&m->graph, m->chip, (1u << n_cores) - 1, layers);
    for (uint32_t i = 0; i < m->graph.n_nodes; i++)
        if (!m->graph.nodes[i].on_cpu && strcmp(m->graph.nodes[i].name, strange) != 0)
            compare_node(m, &layers[i], i, n_cores, first);
}

static void rk3588_shares(void **state)
{
    (void)state;
    static const char *const names[] = {
        "multiple_input_demo.rk3588",    "pp_human_segv2_custom_argmax.rk3588",
        "BCResNet-t2-simplified.rk3588", "test_bcblock.rk3588",
        "test_conv_c1.rk3588",           "test_conv_c16.rk3588",
        "test_stack_2.rk3588",           "sub_after_block1.rk3588",
        "sub_fix_after_swish.rk3588",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model m;
        open_model(&m, names[i]);
        // Two cores share this one by channels although it has rows; we know no reason.
        compare(&m, 2, 3, "Conv:Conv.71");
        compare(&m, 3, 6, "");
        close_model(&m);
    }
}

// The files' totals: all that nodes use, and two blocks of weights with which later compilers for
// RK3588 let cores wait for each other.
static void memory_sizes(void **state)
{
    (void)state;
    static const char *const names[] = {"multiple_input_demo.rk3588", "test_conv_c1.rk3588",
                                        "test_conv_c16.rk3588"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model m;
        struct estimate_memory memory;
        open_model(&m, names[i]);
        assert_int_equal(estimate_memory(&m.graph, m.chip, &memory, NULL), 0);
        assert_int_equal(memory.use.internal_size, m.file.internal_size);
        assert_int_equal(memory.weight_size + 2 * 1024, m.file.weight_size);
        assert_cmp(memory.use.sram_bytes, <, memory.use.internal_bytes); // not inputs and outputs
        close_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rk3588_shares),
        cmocka_unit_test(memory_sizes),
    };
    if (!sim_shared_folder()) {
        print_message("no folder of shared models: skipped\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
