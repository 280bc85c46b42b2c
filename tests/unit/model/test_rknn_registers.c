// Nothing unread: a bit of a register command that changes is refused, with the register's name, or
// changes what the graph says, or is one that the table of registers says does not matter.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/model/rknn/rknn_graph.h"
#include "tensor/arithmetic.h"
#include "tests/support/seed.h"
#include "tests/support/sim_support.h"

// All bits of the small ones.
static const char *const small[] = {
    "rknn/conv2d.rk3576",
    "rknn/multiple_input_demo.rk3562",
    "rknn/multiple_input_demo.rk3566_rk3568",
    "rknn/multiple_input_demo.rk3588",
    "rknn/multiple_input_demo.rv1126b",
};

// One bit of each register of one integer convolution in so many.
static const struct {
    const char *name;
    uint32_t every;
} large[] = {
    {"rknn/retinaface.rv1106", 9},         {"strangers/lprnet_us.rk3562", 4},
    {"strangers/lprnet_us.rk3576", 4},     {"strangers/lprnet_us.rk3588", 4},
    {"strangers/retinaface320.rk3566", 8}, {"strangers/lpd_yolov8n.rk3588", 13},
    {"strangers/lpd_yolov8n.rk3562", 13},  {"strangers/ppocrv4_det_int8.rk3576", 13},
};

struct model {
    struct sim_file bytes;
    struct rknn_file file;
    const struct chip *chip;
};

static bool model_open(struct model *m, const char *name)
{
    struct error e = {0};
    *m = (struct model){0};
    if (!sim_shared_folder() ||
        !sim_file_read(&m->bytes, "%s/models/%s.rknn", sim_shared_folder(), name))
        return false;
    if (rknn_file_open(&m->file, (struct bytes){m->bytes.data, m->bytes.size}, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    m->chip = chip_find(m->file.chip);
    return true;
}

static void model_close(struct model *m)
{
    rknn_file_done(&m->file);
    sim_file_free(&m->bytes);
}

// ---- what a graph says ----

static void take(uint64_t *hash, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; data && i < size; i++)
        *hash = (*hash ^ p[i]) * UINT64_C(0x100000001b3);
}

static void take_quant(uint64_t *hash, const struct graph_conv_quant *q)
{
    take(hash, q->scale, q->n * sizeof *q->scale);
    take(hash, q->bias, q->n * sizeof *q->bias);
    take(hash, q->nz, q->n * sizeof *q->nz);
    if (!q->stages)
        return;
    struct graph_stages s = *q->stages;
    take(hash, s.mul, q->n * sizeof *s.mul);
    s.mul = NULL;
    take(hash, s.mul_shift, sizeof s.mul_shift);
    take(hash, s.bn, sizeof s.bn);
    take(hash, s.bounds, sizeof s.bounds);
    take(hash, &s.addend_offset, sizeof s.addend_offset);
    take(hash, &s.addend, sizeof s.addend);
    take(hash, s.sum_bounds, sizeof s.sum_bounds);
    take(hash, &s.out, sizeof s.out);
    take(hash, &s.zp, sizeof s.zp);
}

static void take_node(uint64_t *hash, const struct graph_node *n)
{
    bool conv = n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE;
    for (uint32_t i = 0; i < n->n_post; i++) {
        take(hash, &n->post[i].kind, sizeof n->post[i].kind);
        take(hash, &n->post[i].alpha, sizeof n->post[i].alpha);
        take(hash, &n->post[i].beta, sizeof n->post[i].beta);
        take(hash, n->post[i].lut, n->post[i].lut ? sizeof *n->post[i].lut : 0);
    }
    if (conv)
        take(hash, &n->window, sizeof n->window);
    if (conv && n->quant)
        take_quant(hash, n->quant);
    if (n->op == GRAPH_ADD)
        take(hash, n->sum, n->sum ? sizeof *n->sum : 0);
}

// 0: refused.
static uint64_t what_it_says(struct model *m, struct error *e)
{
    struct graph g = {0};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (rknn_graph(&g, &m->file, m->chip, e) < 0)
        return 0;
    for (uint32_t i = 0; i < g.n_nodes; i++)
        take_node(&hash, &g.nodes[i]);
    graph_done(&g);
    return hash;
}

// ---- one bit ----

// Which bits of a register the table says need not be read.
static const char *name_at(const struct model *m, uint32_t at, uint32_t *free_bits)
{
    enum rknn_effect why;
    *free_bits = 0;
    for (uint32_t reg = 0; reg < RKNN_REGISTER_COUNT; reg++)
        if (rknn_register_at(m->chip, reg) == at) {
            *free_bits = rknn_register_free_bits(reg, &why);
            return rknn_register_name(reg);
        }
    return "";
}

// A bit of the value of one command of a container 6 or of the lite one.
static void turn(struct model *m, const char *model, const char *node, uint8_t *command,
                 unsigned bit, uint64_t before)
{
    struct error e = {0};
    uint32_t at = (uint32_t)command[0] | (uint32_t)command[1] << 8, free_bits;
    const char *name = name_at(m, at, &free_bits);
    // How packed pixels are fetched has several forms.
    bool packed = strcmp(name, "CNA_CONV_CON1") == 0 && command[3] >> 4;
    bool read = !(free_bits >> bit & 1) && !packed;
    command[2 + bit / 8] ^= (uint8_t)(1u << bit % 8);
    uint64_t after = what_it_says(m, &e);
    command[2 + bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (after == before && read)
        fail_msg("%s: %s: register %s (0x%04x): bit %u is neither refused nor read", model, node,
                 name, at, bit);
    if (!after && !strstr(e.text, "node"))
        fail_msg("%s: register %s (0x%04x): \"%s\" names no node", model, name, at, e.text);
}

// Commands that load a table are a table.
static bool loads_table(const struct rknn_task *t)
{
    for (size_t at = 0; at + 8 <= t->commands.size; at += 8)
        if (read_le16(t->commands.data + at) == 0x4100 && t->commands.data[at + 4] & 2)
            return true;
    return false;
}

static uint8_t *command_of(struct model *m, size_t task, size_t i)
{
    const uint8_t *at = m->file.tasks[task].commands.data + 8 * i;
    return m->bytes.data + (at - m->bytes.data);
}

static void all_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct model m;
        struct error e = {0};
        if (!model_open(&m, small[i]))
            skip();
        uint64_t before = what_it_says(&m, &e);
        assert_int_not_equal(before, 0);
        uint32_t last = UINT32_MAX;
        for (uint32_t t = 0; t < m.file.n_tasks; t++) {
            const struct rknn_task *task = &m.file.tasks[t];
            const char *op = m.file.nodes[task->node].op;
            // What these two convert is a tensor's form in memory.
            bool port = strcmp(op, "InputOperator") == 0 || strcmp(op, "OutputOperator") == 0;
            if (task->node == last || port || loads_table(task))
                continue;
            last = task->node;
            for (size_t c = 0; c < task->commands.size / 8; c++)
                for (unsigned bit = 0; bit < 32; bit++)
                    turn(&m, small[i], m.file.nodes[task->node].op, command_of(&m, t, c), bit,
                         before);
        }
        model_close(&m);
    }
}

static bool is_integer_convolution(const struct model *m, const struct rknn_node *n)
{
    return strncmp(n->op, "Conv", 4) == 0 && strncmp(n->op, "ConvT", 5) != 0 && n->inputs[0] >= 0 &&
           m->file.tensors[n->inputs[0]].type == RKNN_I8;
}

static void bits_of_task(struct model *m, const char *name, uint32_t t, uint64_t *random,
                         uint64_t before)
{
    const struct rknn_task *task = &m->file.tasks[t];
    for (size_t c = 0; c < task->commands.size / 8; c++) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
        turn(m, name, m->file.nodes[task->node].op, command_of(m, t, c), (unsigned)(*random >> 59),
             before);
    }
}

static void some_bits(void **state)
{
    (void)state;
    SEED_EACH (seed, 1)
        for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
            struct model m;
            struct error e = {0};
            uint64_t random = seed;
            if (!model_open(&m, large[i].name))
                skip();
            uint64_t before = what_it_says(&m, &e);
            assert_int_not_equal(before, 0);
            uint32_t last = UINT32_MAX, n = 0;
            for (uint32_t t = 0; t < m.file.n_tasks; t++) {
                const struct rknn_task *task = &m.file.tasks[t];
                bool first = task->node != last && !loads_table(task);
                if (!first || !is_integer_convolution(&m, &m.file.nodes[task->node]))
                    continue;
                last = task->node;
                if (n++ % large[i].every == 0)
                    bits_of_task(&m, large[i].name, t, &random, before);
            }
            model_close(&m);
        }
}

// A chip with an answer that the kernels do not give: its nodes are refused where they meet the
// question, and no others.
static void other_answers(void **state)
{
    static const struct {
        const char *name;
        enum chip_switch asked, not_asked;
    } cases[] = {
        {"strangers/lprnet_us.rk3588", CHIP_OUT_ZP, CHIP_LUT_LINE},
        {"strangers/lprnet_us.rk3576", CHIP_SUM_SHIFT, CHIP_DECONV_PAD},
        {"strangers/lpd_yolov8n.rk3588", CHIP_LUT_SLOPE, CHIP_SUM_SHIFT},
        {"strangers/retinaface320.rk3566", CHIP_EW_SHIFT, CHIP_SUM_SHIFT},
        {"strangers/retinaface320.rk3576", CHIP_CORE_MAXIMA, CHIP_DECONV_PAD}, // in later tasks
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        struct error e = {0};
        if (!model_open(&m, cases[i].name))
            skip();
        uint8_t answers[CHIP_N_SWITCHES] = {0};
        struct chip chip = *m.chip;
        chip.arithmetic = answers;
        m.chip = &chip;
        answers[cases[i].not_asked] = 1;
        assert_int_not_equal(what_it_says(&m, &e), 0);
        answers[cases[i].asked] = 1;
        assert_int_equal(what_it_says(&m, &e), 0);
        assert_non_null(strstr(e.text, chip_switch_name(cases[i].asked)));
        model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_answers),
        cmocka_unit_test(all_bits),
        cmocka_unit_test(some_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
