// Who does what: the tasks of each node for each core, for one core and for several together; and
// how programs lead to each other.
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/program/rknn_program_parts.h"

// ---- schedules ----

// A node's tasks in each column: of one core; of core 0, core 1 of two; of core 0, 1, 2 of three.
#define MAX_COLUMNS 6

struct columns {
    uint32_t n[MAX_COLUMNS];
};

static uint32_t number_at(struct bytes b, size_t i)
{
    return b.size >= 4 * (i + 1) ? read_le32(b.data + 4 * i) : 0;
}

// Node slots 10 and 11. Tasks that load lookup tables are counted in slot 11 alone, except on chips
// whose nodes have one column.
static int read_columns(struct program_reader *r, struct columns *columns, struct error *e)
{
    struct fb_list nodes = fb_tables(&r->graph, 1);
    for (uint32_t i = 0; i < r->f->n_nodes && i < nodes.n; i++) {
        struct fb_table node = fb_list_get(&nodes, i);
        struct bytes tasks = fb_vector(&node, 10, 4), tables = fb_vector(&node, 11, 4);
        bool apart = tasks.size > 4;
        for (size_t k = 0; k < MAX_COLUMNS; k++)
            if (__builtin_add_overflow(number_at(tasks, k), apart ? number_at(tables, k) : 0,
                                       &columns[i].n[k]))
                return error_set(e, STATUS_MODEL_INVALID, "node %u has too many tasks", i);
    }
    return 0;
}

// Container 0x1004 has one core, and tasks in the order of nodes.
static int count_columns(struct program_reader *r, struct columns *columns, struct error *e)
{
    for (uint32_t i = 0; i < r->p->n_tasks; i++) {
        uint32_t node = r->p->tasks[i].node;
        if (i && node < r->p->tasks[i - 1].node)
            return error_set(e, STATUS_MODEL_INVALID,
                             "task %u is of node %u, behind those of node %u", i, node,
                             r->p->tasks[i - 1].node);
        columns[node].n[0]++;
    }
    return 0;
}

// A node's tasks, one after another from task *at on.
static int take_tasks(struct program_reader *r, uint32_t node, uint32_t n, uint32_t *at,
                      struct rknn_range *ret, struct error *e)
{
    const struct rknn_program *p = r->p;
    if (n > p->n_tasks || *at > p->n_tasks - n)
        return error_set(e, STATUS_MODEL_INVALID, "node %u (%s) has %u tasks, %u are left", node,
                         r->f->nodes[node].name, n, p->n_tasks - *at);
    for (uint32_t i = *at; i < *at + n; i++)
        if (p->tasks[i].node != node)
            return error_set(e, STATUS_MODEL_INVALID,
                             "task %u is of node %u, where node %u (%s) has %u tasks", i,
                             p->tasks[i].node, node, r->f->nodes[node].name, n);
    *ret = (struct rknn_range){*at, n};
    *at += n;
    return 0;
}

// The tasks of all nodes for n cores, which are in `n` columns from `column` on: first all of core
// 0, then those of the next.
static int fill_schedule(struct program_reader *r, const struct columns *columns, uint32_t first,
                         uint32_t column, uint32_t n, struct rknn_schedule *ret, struct error *e)
{
    struct rknn_range *tasks = pool_alloc(&r->p->pool, (uint64_t)r->f->n_nodes * n, sizeof *tasks);
    uint32_t at = first;
    if (!tasks)
        return error_no_memory(e, "the model's programs", 0);
    for (uint32_t core = 0; core < n; core++)
        for (uint32_t node = 0; node < r->f->n_nodes; node++) {
            int s = take_tasks(r, node, columns[node].n[column + core], &at,
                               &tasks[(uint64_t)node * n + core], e);
            if (s < 0)
                return s;
        }
    *ret = (struct rknn_schedule){n, tasks};
    return 0;
}

// Graph slot 10: the first task of each program: of one core, once for each core; of two; of three.
static int fill_all(struct program_reader *r, const struct columns *columns, struct error *e)
{
    struct bytes firsts = fb_vector(&r->graph, 10, 4);
    uint32_t cores = r->chip->n_cores;
    struct rknn_program *p = r->p;
    if (r->f->container.kind == RKNN_LITE || !firsts.size)
        return fill_schedule(r, columns, 0, 0, 1, &p->one[0], e);
    if (cores > RKNN_MAX_CORES || firsts.size / 4 != 2 * cores - 1)
        return error_set(e, STATUS_MODEL_INVALID, "%zu programs for a chip of %u cores",
                         firsts.size / 4, cores);
    int s = 0;
    for (uint32_t i = 0; i < cores && s == 0; i++)
        s = fill_schedule(r, columns, number_at(firsts, i), 0, 1, &p->one[i], e);
    for (uint32_t n = 2; n <= cores && s == 0; n++)
        s = fill_schedule(r, columns, number_at(firsts, cores + n - 2), n == 2 ? 1 : 3, n,
                          &p->several[n - 2], e);
    return s;
}

int program_schedule(struct program_reader *r, struct error *e)
{
    cleanup(free_p) struct columns *columns = calloc(r->f->n_nodes + 1, sizeof *columns);
    if (!columns)
        return error_no_memory(e, "the model's programs", 0);
    int s = r->f->container.kind == RKNN_LITE ? count_columns(r, columns, e)
                                              : read_columns(r, columns, e);
    return s == 0 ? fill_all(r, columns, e) : s;
}

// ---- links ----

static int compare_firsts(const void *a, const void *b)
{
    const struct rknn_program_task *const *x = a, *const *y = b;
    return ((*x)->first > (*y)->first) - ((*x)->first < (*y)->first);
}

// Pairs of words, or words, less one.
uint32_t rknn_program_amount(const struct chip *chip, uint32_t n_commands)
{
    uint32_t words = n_commands + TRAILER_WORDS;
    return chip->generation == CHIP_GEN_RK3566 ? words - 1 : (words + 1) / 2 - 1;
}

// The link of a task's trailer is that of a task, and so long. Above are the number of cores and
// bits of unknown meaning.
static int link_task(struct program_reader *r, const struct rknn_program_task *t,
                     const struct rknn_program_task **sorted, struct error *e)
{
    struct rknn_program *p = r->p;
    uint64_t at = t->first + t->n_commands;
    uint32_t to = rknn_command_value(p->commands[at]);
    uint32_t amount = rknn_command_value(p->commands[at + 1]) & 0xffff;
    const struct rknn_program_task key = {.first = to / 8}, *wanted = &key, **found;
    if (!p->commands[at])
        return 0;
    found = bsearch(&wanted, sorted, p->n_tasks, sizeof *sorted, compare_firsts);
    if (to % 16 || !found)
        return error_set(e, STATUS_MODEL_INVALID, "it leads to byte %u, where no task begins", to);
    if (amount != rknn_program_amount(r->chip, (*found)->n_commands))
        return error_set(e, STATUS_MODEL_INVALID,
                         "it leads to a program of %u commands and says %#x of its length",
                         (*found)->n_commands, amount);
    if (r->marks[at] & MARK_PATCHED) // several tasks may have the same commands
        return 0;
    if (!pool_reserve(&p->pool, p->patches, p->n_patches, r->patch_room, p->n_patches + 1))
        return error_no_memory(e, "the model's programs", 0);
    r->marks[at] |= MARK_PATCHED;
    p->patches[p->n_patches++] = (struct rknn_patch){
        .command = at, .offset = to, .part = RKNN_PART_COMMANDS, .tensor = RKNN_NO_TENSOR};
    p->counts.links++;
    return 0;
}

int program_link(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    const struct rknn_program_task **sorted = pool_alloc(&p->pool, p->n_tasks, sizeof *sorted);
    if (!sorted)
        return error_no_memory(e, "the model's programs", 0);
    for (uint32_t i = 0; i < p->n_tasks; i++)
        sorted[i] = &p->tasks[i];
    if (p->n_tasks)
        qsort(sorted, p->n_tasks, sizeof *sorted, compare_firsts);
    for (uint32_t i = 0; i < p->n_tasks; i++)
        if (link_task(r, &p->tasks[i], sorted, e) < 0)
            return error_prefix(e, "task %u", i);
    return 0;
}
