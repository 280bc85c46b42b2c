// Defects of converters are seen by where programs read: the tables of the file say what was meant.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/program/rknn_program.h"
#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/sim/describe/describe.h"
#include "npu/sim/describe/describe_json.h"

// The patch of each command, plus 1; 0: it has none.
static uint32_t *patch_of_commands(const struct rknn_program *p)
{
    uint32_t *ret = calloc((size_t)p->n_commands + 1, sizeof *ret);
    for (uint64_t i = 0; ret && i < p->n_patches && i < UINT32_MAX; i++)
        ret[p->patches[i].command] = (uint32_t)i + 1;
    return ret;
}

// Where a task reads what this register says; NULL: nowhere.
static const struct rknn_patch *find_place(const struct rknn_program *p, const uint32_t *patches,
                                           const struct rknn_program_task *t, uint32_t reg)
{
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((p->commands[i] & 0xffff) == reg && patches[i])
            return &p->patches[patches[i] - 1];
    return NULL;
}

// Not a constant of the file.
static bool is_computed(const struct rknn_file *f, int32_t tensor)
{
    return tensor >= 0 && (uint32_t)tensor < f->n_tensors && f->tensors[tensor].data.size == 0;
}

// A power of 2 is a product of one operand with itself; its exponent is a constant.
static bool has_two_operands(const struct rknn_file *f, const struct rknn_node *n)
{
    return n->n_inputs == 2 && n->inputs[0] != n->inputs[1] && is_computed(f, n->inputs[0]) &&
           is_computed(f, n->inputs[1]);
}

// Whether a task takes both operands of its node from one place.
static bool reads_one_twice(const struct rknn_program *p, const uint32_t *patches,
                            const struct rknn_program_task *t, const struct chip *chip)
{
    uint32_t first = rknn_register_at(chip, RDMA_SRC_BASE);
    uint32_t second = rknn_register_at(chip, RDMA_EW_BASE);
    const struct rknn_patch *a = first ? find_place(p, patches, t, first) : NULL;
    const struct rknn_patch *b = second ? find_place(p, patches, t, second) : NULL;
    return a && b && a->part == b->part && a->offset == b->offset;
}

// In words for people; rknnctl adds what to do.
static void add_defect(json_t *list, const struct rknn_node *n)
{
    json_array_append_new(
        list, json_pack("{s:o, s:s}", "node", json_text(n->name), "text",
                        "its program takes one operand twice, and the other one not at all"));
}

// Each node once, however many of its tasks are wrong: it has some in each program, for one core
// and for several. Of programs that cannot be read nothing is said.
void describe_defects(json_t *root, const struct rknn_file *f, const struct chip *chip)
{
    struct rknn_program p;
    if (rknn_program_open(&p, f, chip, NULL) < 0)
        return;
    cleanup(free_p) uint32_t *patches = patch_of_commands(&p);
    cleanup(free_p) bool *told = calloc((size_t)f->n_nodes + 1, sizeof *told);
    json_t *list = json_array();
    for (uint32_t i = 0; patches && told && i < p.n_tasks; i++) {
        const struct rknn_program_task *t = &p.tasks[i];
        const struct rknn_node *n = &f->nodes[t->node];
        if (!told[t->node] && has_two_operands(f, n) && reads_one_twice(&p, patches, t, chip)) {
            add_defect(list, n);
            told[t->node] = true;
        }
    }
    if (patches && told)
        json_object_set(root, "defects", list);
    json_decref(list);
    rknn_program_done(&p);
}
