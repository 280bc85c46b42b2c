// The register commands of one node: from the file's tasks to "which value has register R".
//
// The chip would run a node's tasks one after the other, each with its own register values. As the
// tasks of a node only work on different parts of the same tensors, the first value written says
// what the executor needs to know (scales, modes); addresses and sizes of parts, which differ, are
// not asked for. No thread shares a struct rknn_regs.
#include "npu/model/rknn/regs/rknn_commands.h"

#include <stdlib.h>

struct rknn_regs *rknn_regs_new(const struct chip *chip)
{
    struct rknn_regs *regs = calloc(1, sizeof *regs);
    if (!regs)
        return NULL;
    regs->chip = chip;
    regs->list = calloc(1, sizeof *regs->list);
    if (regs->list)
        return regs;
    free(regs);
    return NULL;
}

void rknn_regs_free(struct rknn_regs *regs)
{
    if (regs)
        rknn_list_free(regs->list);
    free(regs);
}

// Which of its two groups of registers a unit is told by and works on: it takes turns, or both
// pointers are cleared. No file has anything else.
static bool is_known_pointer(uint32_t reg, uint32_t value)
{
    enum { TAKE_TURNS = 0x0e, CLEAR_BOTH = 0x30 };
    switch ((enum rknn_register)reg) {
    case CNA_S_POINTER:
    case CMAC_S_POINTER:
    case CORE_S_POINTER:
    case DPU_S_POINTER:
    case RDMA_S_POINTER:
    case PPU_S_POINTER:
    case PPU_RDMA_S_POINTER:
        return value == TAKE_TURNS || value == CLEAR_BOTH;
    default:
        return false;
    }
}

// Which register is at which address of this chip.
static void find_registers(struct rknn_regs *regs)
{
    for (uint32_t reg = 0; reg < RKNN_REGISTER_COUNT; reg++) {
        uint32_t i = rknn_register_at(regs->chip, reg) / 4;
        if (!i)
            continue;
        regs->place[reg] = (uint16_t)i;
        regs->reg[i] = (uint16_t)(reg + 1);
        enum rknn_effect why;
        regs->any[i] = rknn_register_read_bits(reg) | rknn_register_free_bits(reg, &why);
    }
    // A stride goes in steps of an atom, here of 8 bytes (rknn_places.c).
    if (regs->chip->generation == CHIP_GEN_RK3566)
        regs->any[rknn_register_at(regs->chip, PPU_DATA_FORMAT) / 4] |= 8;
}

// Commands name the unit that a register is in, too, but for those of containers 1 and 2. Those
// that fill up a task name none.
static bool unit_is_right(const struct rknn_regs *regs, struct rknn_command c)
{
    static const uint16_t units[16] = {[1] = 0x200,  [2] = 0x400,  [3] = 0x800,  [4] = 0x1000,
                                       [5] = 0x2000, [6] = 0x4000, [7] = 0x8000, [8] = 0x400};
    return c.unit == (regs->names_units && c.reg ? units[c.reg >> 12] | 1u : 0);
}

// What only attention of RV1106 has, whose products are of two tensors (rknn_attention.c).
static bool is_of_attention(const struct rknn_regs *regs, struct rknn_command c)
{
    return !regs->checks && regs->reg[c.reg / 4] == CNA_FC_CON0 + 1 && c.value == 0xffff0001;
}

// Refuses a command of which some bit is neither read nor known to change no value.
static int check_command(const struct rknn_regs *regs, struct rknn_command c, struct error *e)
{
    uint32_t reg = regs->reg[c.reg / 4];
    if (is_of_attention(regs, c))
        return 0;
    if (!unit_is_right(regs, c) || c.reg % 4)
        return error_set(e, STATUS_MODEL_INVALID,
                         "its register commands write 0x%08x to 0x%04x of unit 0x%04x, which is "
                         "not known",
                         c.value, c.reg, c.unit);
    if (!(c.value & ~regs->any[c.reg / 4]) || (reg && is_known_pointer(reg - 1, c.value)))
        return 0;
    if (reg)
        return rknn_regs_refuse(regs, reg - 1, c.value, "what that does is not known", e);
    return error_set(e, STATUS_MODEL_INVALID,
                     "register 0x%04x holds 0x%08x: what that does is not known", c.reg, c.value);
}

static int load_task(struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_task *task, struct error *e)
{
    struct bytes b = task->commands;
    for (size_t at = 0; at + 8 <= b.size; at += 8) {
        struct rknn_command c = rknn_decode(f, b.data + at);
        uint32_t i = c.reg / 4;
        if ((c.value & ~regs->any[i] || !unit_is_right(regs, c) || c.reg % 4) &&
            check_command(regs, c, e) < 0)
            return STATUS_MODEL_INVALID;
        if (regs->owner[i] == regs->load) {
            regs->varies[i] |= regs->value[i] ^ c.value;
            continue;
        }
        regs->varies[i] = 0;
        regs->owner[i] = regs->load;
        struct rknn_relocation to = rknn_file_relocation(f, task, at / 8, c.reg);
        regs->value[i] = to.tensor < 0 ? c.value : to.offset;
        regs->tensor[i] = to.tensor;
    }
    return 0;
}

// Both tables are loaded whole, from their first points on.
static int check_tables(const struct rknn_regs *regs, const struct rknn_node *n, struct error *e)
{
    const struct rknn_list *l = regs->list;
    bool any = false;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        any = any || l->tasks[t].table;
    if (!any)
        return 0;
    if (RKNN_LUT_FROM(l->access))
        return rknn_regs_refuse(regs, DPU_LUT_ACCESS_CFG, l->access,
                                "a lookup table that is not loaded from its first point on", e);
    return l->points[0] >= RKNN_LUT_POINTS && l->points[1] >= RKNN_LUT_POINTS
               ? 0
               : error_set(e, STATUS_MODEL_INVALID,
                           "its tasks load %u and %u points of its two lookup tables, which have "
                           "%u",
                           l->points[0], l->points[1], RKNN_LUT_POINTS);
}

static int load_tasks(struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
                      uint32_t first, struct error *e)
{
    int r = 0;
    for (uint32_t t = first; t < n->n_tasks && r == 0; t++)
        if (!regs->list->tasks[t].table) // else its other registers mean nothing
            r = load_task(regs, f, &f->tasks[n->first_task + t], e);
    return r < 0 ? error_prefix(e, "node %s (%s)", n->name, n->op) : 0;
}

int rknn_regs_load_rest(struct rknn_regs *regs, const struct rknn_file *f,
                        const struct rknn_node *n, struct error *e)
{
    regs->load++;
    return load_tasks(regs, f, n, 1, e);
}

// `load` numbers the nodes: an entry is valid when its owner is the current load, so the arrays
// need no clearing between nodes.
int rknn_regs_load(struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
                   struct error *e)
{
    if (!regs->load++)
        find_registers(regs);
    // Attention is a net of its own: its reader takes what it needs of each task. Its registers are
    // among those that are known, too.
    regs->checks = strcmp(n->op, "exSDPAttention") != 0;
    regs->names_units = !f->container.blobs;
    int r = rknn_list_make(regs->list, regs->reg, f, n, e);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", n->name, n->op);
    r = load_tasks(regs, f, n, 0, e);
    if (r < 0)
        return r;
    r = check_tables(regs, n, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", n->name, n->op) : 0;
}

// The index of a register that the node's commands set; -1: they do not, or the chip lacks it, or
// nothing has been loaded yet (place 0).
static int32_t find_set(const struct rknn_regs *regs, enum rknn_register reg)
{
    uint32_t i = regs->place[reg];
    return i && regs->owner[i] == regs->load ? (int32_t)i : -1;
}

uint32_t rknn_regs_varies(const struct rknn_regs *regs, enum rknn_register reg)
{
    int32_t i = find_set(regs, reg);
    return i < 0 ? 0 : regs->varies[i];
}

bool rknn_regs_get(const struct rknn_regs *regs, enum rknn_register reg, uint32_t *ret)
{
    int32_t i = find_set(regs, reg);
    if (i >= 0)
        *ret = regs->value[i];
    return i >= 0;
}

// ---- task by task ----

void rknn_walk_begin(struct rknn_walk *w, const struct rknn_regs *regs)
{
    *w = (struct rknn_walk){.list = regs->list};
}

const struct rknn_state *rknn_walk_next(struct rknn_walk *w)
{
    int unit = w->pools ? RKNN_OF_PPU : RKNN_OF_DPU;
    return w->next < w->list->n_states[unit] ? &w->list->states[unit][w->next++] : NULL;
}

bool rknn_regs_of_task(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, uint32_t k, enum rknn_register reg, uint32_t *ret)
{
    struct bytes b = f->tasks[n->first_task + k].commands;
    uint32_t address = rknn_register_at(regs->chip, reg);
    bool found = false;
    for (size_t at = 0; address && at + 8 <= b.size; at += 8) {
        struct rknn_command c = rknn_decode(f, b.data + at);
        if (c.reg == address) {
            *ret = c.value;
            found = true;
        }
    }
    return found;
}

int rknn_regs_need(const struct rknn_regs *regs, enum rknn_register reg, uint32_t *ret,
                   struct error *e)
{
    if (rknn_regs_get(regs, reg, ret))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its register commands do not set %s (0x%04x), so its scale is not known",
                     rknn_register_name(reg), rknn_register_at(regs->chip, reg));
}

int rknn_regs_refuse(const struct rknn_regs *regs, enum rknn_register reg, uint32_t value,
                     const char *what, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID, "register %s (0x%04x) holds 0x%08x: %s",
                     rknn_register_name(reg), rknn_register_at(regs->chip, reg), value, what);
}

int32_t rknn_regs_tensor(const struct rknn_regs *regs, enum rknn_register reg)
{
    int32_t i = find_set(regs, reg);
    return i >= 0 ? regs->tensor[i] : -1;
}

// The range that converters use: input -16384 to 16384 in two tables, 32 per point. Only the
// registers that the chip has and the node sets are compared.
bool rknn_regs_lut_range(const struct rknn_regs *regs)
{
    // LE is the table of negative values, LO that of the others.
    static const struct {
        enum rknn_register reg;
        uint32_t value;
    } usual[] = {{DPU_LUT_INFO, 0x50500},
                 {DPU_LUT_LE_START, 0xffffc000}, // -16384
                 {DPU_LUT_LE_END, 0},
                 {DPU_LUT_LO_START, 0},
                 {DPU_LUT_LO_END, 0x4000}}; // 16384
    uint32_t value;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (rknn_regs_get(regs, usual[i].reg, &value) && value != usual[i].value)
            return false;
    return true;
}

// Replays the table load: a write to ACCESS_CFG selects a table and starts it anew, each write to
// ACCESS_DATA appends a point. Points past the 513th are dropped, as the count comes from the file.
// Both tables must be full.
bool rknn_regs_lut(const struct rknn_regs *regs, const struct rknn_file *f,
                   const struct rknn_node *n, int16_t ret[2][RKNN_LUT_POINTS])
{
    uint32_t access = rknn_register_at(regs->chip, DPU_LUT_ACCESS_CFG);
    uint32_t data = rknn_register_at(regs->chip, DPU_LUT_ACCESS_DATA);
    uint32_t filled[2] = {0, 0}, table = 0;
    bool writing = false;
    for (uint32_t t = 0; t < n->n_tasks; t++) {
        struct bytes b = f->tasks[n->first_task + t].commands;
        for (size_t at = 0; at + 8 <= b.size; at += 8) {
            struct rknn_command c = rknn_decode(f, b.data + at);
            if (c.reg == access) {
                writing = RKNN_LUT_WRITES(c.value);
                table = RKNN_LUT_TABLE(c.value);
                filled[table] = writing ? 0 : filled[table];
            } else if (c.reg == data && writing && filled[table] < RKNN_LUT_POINTS) {
                ret[table][filled[table]++] = (int16_t)c.value;
            }
        }
    }
    return filled[0] == RKNN_LUT_POINTS && filled[1] == RKNN_LUT_POINTS;
}
