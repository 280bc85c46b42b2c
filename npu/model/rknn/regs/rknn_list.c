// Many rules walk through a node's tasks. Decoding commands each time took two thirds of the time
// of reading a file, so they are decoded once, without those that set no known register and without
// the points of tables; and what they come to is kept of each task, too. The memory is used again
// for the next node, and grows with the largest one.
#include "npu/model/rknn/regs/rknn_list.h"

#include <stdlib.h>
#include <string.h>

void rknn_list_free(struct rknn_list *l)
{
    if (!l)
        return;
    free(l->sets);
    free(l->tasks);
    free(l->states[RKNN_OF_DPU]);
    free(l->states[RKNN_OF_PPU]);
    free(l);
}

// Room for n tasks of so many commands in all.
static int make_room(struct rknn_list *l, size_t n_tasks, size_t n_sets, struct error *e)
{
    if (n_tasks > l->room_of_tasks) {
        free(l->tasks);
        l->tasks = calloc(n_tasks, sizeof *l->tasks);
        l->room_of_tasks = l->tasks ? n_tasks : 0;
    }
    if (n_sets > l->room_of_sets) {
        free(l->sets);
        l->sets = calloc(n_sets, sizeof *l->sets);
        l->room_of_sets = l->sets ? n_sets : 0;
    }
    return l->room_of_tasks >= n_tasks && l->room_of_sets >= n_sets
               ? 0
               : error_no_memory(e, "a node's commands", n_sets * sizeof *l->sets);
}

// Pointers that are cleared: the task works on the first group, and so does the next one.
static void look_at_units(struct rknn_listed *t, struct rknn_command c, uint32_t reg,
                          bool pointed[2])
{
    enum { CLEAR_BOTH = 0x30, DPU_BLOCK = 4, PPU_BLOCK = 6 };
    static const enum rknn_register pointers[2] = {DPU_S_POINTER, PPU_S_POINTER};
    t->works[RKNN_OF_DPU] = t->works[RKNN_OF_DPU] || c.reg >> 12 == DPU_BLOCK;
    t->works[RKNN_OF_PPU] = t->works[RKNN_OF_PPU] || c.reg >> 12 == PPU_BLOCK;
    for (int i = 0; i < 2; i++)
        if (reg == (uint32_t)pointers[i] + 1 && !pointed[i]) {
            pointed[i] = true;
            t->clears[i] = c.value == CLEAR_BOTH;
        }
}

static void list_task(struct rknn_list *l, const uint16_t *known, const struct rknn_file *f,
                      const struct rknn_task *task, struct rknn_listed *ret)
{
    struct bytes b = task->commands;
    bool writes = false, pointed[2] = {false, false};
    uint32_t points = 0, table = 0;
    *ret = (struct rknn_listed){.first = l->n_sets};
    for (size_t at = 0; at + 8 <= b.size; at += 8) {
        struct rknn_command c = rknn_decode(f, b.data + at);
        uint32_t reg = known[c.reg / 4];
        look_at_units(ret, c, reg, pointed);
        if (reg == DPU_LUT_ACCESS_CFG + 1) {
            writes = RKNN_LUT_WRITES(c.value);
            table = RKNN_LUT_TABLE(c.value);
            l->points[table] = writes ? 0 : l->points[table];
            l->access |= c.value;
        } else if (writes && reg == DPU_LUT_ACCESS_DATA + 1) {
            l->points[table]++;
            points++;
        }
        if (!reg || reg == DPU_LUT_ACCESS_DATA + 1)
            continue;
        struct rknn_relocation to = rknn_file_relocation(f, task, at / 8, c.reg);
        l->sets[l->n_sets++] =
            (struct rknn_set){to.tensor < 0 ? c.value : to.offset, to.tensor, reg - 1};
    }
    ret->n = l->n_sets - ret->first;
    ret->table = points >= RKNN_LUT_POINTS;
}

// Blocks have two groups of registers that take turns, so a task changes those of the task two
// before it, unless its pointers are cleared.
static void list_states(struct rknn_list *l, enum rknn_unit unit, uint32_t n_tasks)
{
    struct rknn_state groups[2] = {0};
    uint32_t group = 0;
    memset(groups[0].tensor, 0xff, sizeof groups[0].tensor);
    memset(groups[1].tensor, 0xff, sizeof groups[1].tensor);
    for (uint32_t k = 0; k < n_tasks; k++) {
        const struct rknn_listed *t = &l->tasks[k];
        group = t->clears[unit] ? 0 : group;
        struct rknn_state *to = &groups[group];
        for (size_t i = t->first; i < t->first + t->n; i++) {
            to->value[l->sets[i].reg] = l->sets[i].value;
            to->tensor[l->sets[i].reg] = l->sets[i].tensor;
        }
        group = t->works[unit] && !t->clears[unit] ? !group : group;
        if (t->works[unit] && !t->table)
            l->states[unit][l->n_states[unit]++] = *to;
    }
}

// What a unit sees in each of the tasks. Those of files' largest nodes take a megabyte.
static int make_states(struct rknn_list *l, enum rknn_unit unit, uint32_t n_tasks, struct error *e)
{
    enum { MOST = 1 << 13 };
    size_t n = 0;
    for (uint32_t k = 0; k < n_tasks; k++)
        n += l->tasks[k].works[unit] && !l->tasks[k].table;
    l->n_states[unit] = 0;
    if (n > MOST)
        return error_set(e, STATUS_MODEL_INVALID, "%zu tasks are more than are looked at", n);
    if (n > l->room_of_states[unit]) {
        free(l->states[unit]);
        l->states[unit] = calloc(n, sizeof *l->states[unit]);
        l->room_of_states[unit] = l->states[unit] ? n : 0;
    }
    if (n > l->room_of_states[unit])
        return error_no_memory(e, "a node's registers", n * sizeof *l->states[unit]);
    if (n)
        list_states(l, unit, n_tasks);
    return 0;
}

int rknn_list_make(struct rknn_list *l, const uint16_t *known, const struct rknn_file *f,
                   const struct rknn_node *n, struct error *e)
{
    size_t n_sets = 0;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        n_sets += f->tasks[n->first_task + t].commands.size / 8;
    l->node = NULL;
    if (make_room(l, n->n_tasks, n_sets, e) < 0)
        return STATUS_MALLOC_FAIL;
    l->n_sets = l->access = l->points[0] = l->points[1] = 0;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        list_task(l, known, f, &f->tasks[n->first_task + t], &l->tasks[t]);
    l->node = n;
    int r = make_states(l, RKNN_OF_DPU, n->n_tasks, e);
    return r < 0 ? r : make_states(l, RKNN_OF_PPU, n->n_tasks, e);
}
