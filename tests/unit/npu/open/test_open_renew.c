// Parts of nodes that begin with a task of our own: outputs are those of whole nodes, while others
// leave what they like in the NPU between any two parts; and a part does not begin where not all is
// known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/open/open_renew.h"
#include "tests/support/sim_run.h"
#include "tests/support/sim_support.h"

#define MAX_PORTS 16
#define IN_PLACE  0x30u // of S_POINTER

// ---- places of a file ----

struct case_of {
    struct sim_file bytes;
    struct npu_model model;
    struct provider provider;
    enum open_step *steps;
};

struct places {
    unsigned all, cut, renewed;
};

static void begin(struct case_of *c, const char *chip, const char *path)
{
    struct error e = {0};
    *c = (struct case_of){.provider = {.ops = &provider_emu}};
    assert_true(sim_file_read(&c->bytes, "%s", path));
    struct bytes all = {c->bytes.data, c->bytes.size};
    c->model.provider = &c->provider;
    c->model.chip = chip_find(chip);
    if (rknn_file_open(&c->model.file, all, &e) < 0 ||
        rknn_program_open(&c->model.program, &c->model.file, c->model.chip, &e) < 0)
        fail_msg("%s: %s", path, e.text);
    c->steps = calloc(c->model.file.n_nodes + 1, sizeof *c->steps);
    for (uint32_t i = 0; i < c->model.file.n_nodes; i++)
        c->steps[i] = OPEN_NPU;
    c->model.steps = c->steps;
}

static void end(struct case_of *c)
{
    free(c->steps);
    rknn_program_done(&c->model.program);
    pool_done(&c->model.pool);
    rknn_file_done(&c->model.file);
    sim_file_free(&c->bytes);
}

// Between two tasks of a node, in the first core's schedule.
static struct places count(struct case_of *c)
{
    struct npu_model *m = &c->model;
    struct places n = {0};
    struct error e = {0};
    if (open_cuts_find(&m->program, m->chip, NULL, &m->pool, &m->cuts, &e) < 0 ||
        open_renew_tasks(m, &e) < 0)
        fail_msg("%s", e.text);
    for (uint32_t node = 0; node < m->file.n_nodes; node++) {
        const struct rknn_range *r = &m->program.one[0].tasks[node];
        for (uint32_t i = r->first + 1; i < r->first + r->n; i++) {
            n.all++;
            n.cut += m->cuts.tasks[i];
            n.renewed += m->cuts.renewed[i] != 0;
            assert_false(m->cuts.tasks[i] && m->cuts.renewed[i]);
        }
    }
    return n;
}

// ---- what is not known ----

static const char *shared(char path[512], const char *name)
{
    const char *folder = sim_shared_folder();
    snprintf(path, 512, "%s/models/%s", folder ? folder : "", name);
    return folder ? path : NULL;
}

#define NET "strangers/osnet_l2norm.rk3588.rknn"

// The first task that a part begins with as a copy which has registers from elsewhere.
static uint32_t first_renewed(const struct npu_model *m, uint32_t n_tasks)
{
    const struct rknn_program_task *tasks = m->program.tasks;
    for (uint32_t i = 0; i < n_tasks; i++)
        if (m->cuts.renewed[i] && tasks[m->cuts.renewed[i]].n_commands > tasks[i].n_commands)
            return i;
    fail_msg("nothing is copied");
    return 0;
}

// A register that the task's copy has from elsewhere, and the command that it comes from.
static uint64_t *command_from_elsewhere(struct case_of *c, uint32_t task)
{
    struct rknn_program *p = &c->model.program;
    const struct rknn_program_task *t = &p->tasks[task],
                                   *copy = &p->tasks[c->model.cuts.renewed[task]];
    uint32_t reg = p->commands[copy->first + copy->n_commands - 1] & 0xffff;
    for (uint64_t i = t->first; i-- > 0;)
        if ((p->commands[i] & 0xffff) == reg)
            return &p->commands[i];
    fail_msg("register %#x comes from nowhere", reg);
    return NULL;
}

// All writes of one group are gone: its register is what another program has left there.
static void a_register_that_nobody_has_written(void **state)
{
    char path[512];
    struct case_of c;
    (void)state;
    if (!shared(path, NET))
        skip();
    begin(&c, "rk3588", path);
    uint32_t n_tasks = c.model.program.n_tasks;
    struct places before = count(&c);
    uint32_t task = first_renewed(&c.model, n_tasks);
    uint32_t reg = *command_from_elsewhere(&c, task) & 0xffff;
    end(&c);

    begin(&c, "rk3588", path);
    const struct rknn_program_task *t = &c.model.program.tasks[task];
    for (uint32_t i = task; i-- > 0 && c.model.program.tasks[i].node == t->node;) {
        const struct rknn_program_task *other = &c.model.program.tasks[i];
        bool same_group = (task - i) % 2 == 0;
        for (uint64_t k = other->first; k < other->first + other->n_commands && same_group; k++)
            if ((c.model.program.commands[k] & 0xffff) == reg)
                c.model.program.commands[k] = c.model.program.commands[other->first];
    }
    struct places after = count(&c);
    assert_int_equal(c.model.cuts.renewed[task], 0);
    assert_true(after.renewed < before.renewed);
    end(&c);
}

// Groups that change their ways inside a node are not followed.
static void pointers_that_are_not_followed(void **state)
{
    char path[512];
    struct case_of c;
    (void)state;
    if (!shared(path, NET))
        skip();
    begin(&c, "rk3588", path);
    uint32_t n_tasks = c.model.program.n_tasks;
    count(&c);
    uint32_t task = first_renewed(&c.model, n_tasks);
    end(&c);

    begin(&c, "rk3588", path);
    struct rknn_program *p = &c.model.program;
    uint64_t *command = NULL;
    uint32_t at = 0x4004; // S_POINTER of the DPU
    for (uint64_t k = 0; k < p->tasks[task].n_commands && !command; k++)
        if ((p->commands[p->tasks[task].first + k] & 0xffff) == at)
            command = &p->commands[p->tasks[task].first + k];
    assert_non_null(command);
    *command = rknn_command_with(*command, IN_PLACE);
    count(&c);
    assert_int_equal(c.model.cuts.renewed[task], 0);
    end(&c);
}

// ---- runs ----

struct lent {
    struct npu_slices slices;
    unsigned times;
};

static int lend(struct npu_slices *slices, struct error *e)
{
    (void)e;
    container_of(slices, struct lent, slices)->times++;
    return 0;
}

struct values {
    uint8_t *data[MAX_PORTS];
    size_t size[MAX_PORTS];
};

static void values_done(struct values *v)
{
    for (unsigned i = 0; i < MAX_PORTS; i++)
        free(v->data[i]);
}

static struct values run(struct sim_run *s)
{
    struct npu_input inputs[MAX_PORTS] = {0};
    struct npu_output outputs[MAX_PORTS] = {0};
    struct values in = {0}, out = {0};
    struct error e = {0};
    uint32_t random = 1;
    assert_true(s->info->n_inputs <= MAX_PORTS && s->info->n_outputs <= MAX_PORTS);
    for (uint32_t i = 0; i < s->info->n_inputs; i++) {
        size_t n = s->info->inputs[i].native.size;
        in.data[i] = malloc(n + 1);
        for (size_t k = 0; k < n; k++) // small numbers, of int8 and of fp16
            in.data[i][k] = (uint8_t)((random = random * 1664525 + 1013904223) >> 26);
        inputs[i] = (struct npu_input){.data = in.data[i], .size = n, .pass_through = true};
    }
    for (uint32_t i = 0; i < s->info->n_outputs; i++) {
        out.size[i] = s->info->outputs[i].logical.size;
        out.data[i] = malloc(out.size[i] + 1);
        outputs[i] = (struct npu_output){.data = out.data[i], .size = out.size[i]};
    }
    if (sim_run_once(s, inputs, outputs, &e) < 0)
        fail_msg("%s", e.text);
    values_done(&in);
    return out;
}

// The first run has all parts there are, and later ones those that a slice of 1 us makes: all of
// them, too.
static unsigned check_parts(const char *chip, const char *path)
{
    static const atomic_bool always = true;
    struct lent lent = {.slices = {.us = 1, .wanted = &always, .wait = lend}};
    struct sim_run s = {0};
    struct error e = {0};
    char options[64];
    snprintf(options, sizeof options, "emu:%s,others", chip);
    if (sim_run_init_with(&s, options, path, &e) < 0)
        fail_msg("%s: %s", path, e.text);
    struct values whole = run(&s), parts[2];
    s.slices = &lent.slices;
    for (int i = 0; i < 2; i++) {
        lent.times = 0;
        parts[i] = run(&s);
        for (uint32_t k = 0; k < s.info->n_outputs; k++)
            assert_memory_equal(parts[i].data[k], whole.data[k], whole.size[k]);
        values_done(&parts[i]);
    }
    values_done(&whole);
    sim_run_done(&s);
    return lent.times;
}

static const struct {
    const char *chip, *name;
    unsigned renewed; // at least
} files[] = {
    {"rk3588", "strangers/lprnet_us.rk3588.rknn", 1},
    {"rk3576", "strangers/lprnet_us.rk3576.rknn", 1},
    {"rk3562", "strangers/lprnet_us.rk3562.rknn", 1},
    {"rk3568", "rknn/lprnet.rk3568.rknn", 1},
};

static void parts_give_what_whole_nodes_give(void **state)
{
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct case_of c;
        if (!shared(path, files[i].name))
            skip();
        begin(&c, files[i].chip, path);
        struct places n = count(&c);
        end(&c);
        assert_true(n.renewed >= files[i].renewed);
        assert_true(check_parts(files[i].chip, path) >= n.renewed + n.cut);
    }
}

int main(int n, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_register_that_nobody_has_written),
        cmocka_unit_test(pointers_that_are_not_followed),
        cmocka_unit_test(parts_give_what_whole_nodes_give),
    };
    for (int i = 2; i < n; i++) { // by hand: CHIP FILE…
        struct case_of c;
        begin(&c, words[1], words[i]);
        struct places p = count(&c);
        printf("%s: places %u, cut %u, with copies %u; programs %llu words", words[i], p.all, p.cut,
               p.renewed, (unsigned long long)c.model.program.n_commands);
        fflush(stdout);
        printf(", %u parts equal\n", check_parts(words[1], words[i]));
        fflush(stdout);
        end(&c);
    }
    return n > 2 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
