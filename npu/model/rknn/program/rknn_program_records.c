// Containers 6 and 0x1004: records of tasks, in the order in which cores take them, and one stream
// of commands that all share.
#include <inttypes.h>
#include <stdlib.h>

#include "npu/model/rknn/program/rknn_program_parts.h"

#define TASK_BYTES 40
#define MAX_TASKS  (1u << 20)

static struct bytes data_of_kind(const struct rknn_file *f, enum rknn_tensor_kind kind)
{
    for (uint32_t i = 0; i < f->n_tensors; i++)
        if (f->tensors[i].kind == kind)
            return f->tensors[i].data;
    return (struct bytes){0};
}

// What follows a program's commands is as expected; links are looked at later.
static bool has_trailer(const uint64_t *trailer, uint32_t enable)
{
    const uint64_t keep = ~((uint64_t)UINT32_MAX << 16);
    bool linked = (trailer[0] & keep) == WORD_LINK && (trailer[1] & keep) == WORD_AMOUNT;
    bool ends = !trailer[0] && ((trailer[1] & keep) == WORD_AMOUNT || !trailer[1]);
    // On RK3576 programs of two cores have one bit more than the record says.
    return (linked || ends) && trailer[2] == WORD_BARRIER && (trailer[3] & keep) == WORD_ENABLE &&
           (rknn_command_value(trailer[3]) & ENABLE_ALL) == enable;
}

// {u32 flags, node, blocks, interrupts, interrupts to clear, status; u32 commands, u32 byte of the
// node's own commands, which drivers do not look at; u64 byte of the first}
static int read_record(struct program_reader *r, const uint8_t *record, struct error *e)
{
    struct rknn_program *p = r->p;
    uint64_t at = read_le64(record + 32);
    struct rknn_program_task t = {.node = read_le32(record + 4),
                                  .enable = read_le32(record + 8),
                                  .interrupts = read_le32(record + 12),
                                  .n_commands = read_le32(record + 24),
                                  .first = at / 8};
    if (read_le32(record))
        return error_set(e, STATUS_MODEL_INVALID, "it has flags %#x, which are not known",
                         read_le32(record));
    if (t.node >= r->f->n_nodes)
        return error_set(e, STATUS_MODEL_INVALID, "it is of node %u, there are %u", t.node,
                         r->f->n_nodes);
    if (!t.enable || t.enable & ~ENABLE_ALL || !(t.enable & (ENABLE_DPU | ENABLE_PPU)))
        return error_set(e, STATUS_MODEL_INVALID, "it starts blocks %#x", t.enable);
    if (t.interrupts != (t.enable & ENABLE_PPU ? INTERRUPTS_PPU : INTERRUPTS_DPU))
        return error_set(e, STATUS_MODEL_INVALID, "it starts blocks %#x and waits for %#x",
                         t.enable, t.interrupts);
    if (at % 16 || t.first > p->n_commands ||
        (uint64_t)t.n_commands + TRAILER_WORDS > p->n_commands - t.first || !t.n_commands)
        return error_set(e, STATUS_MODEL_INVALID,
                         "its %u commands at byte %" PRIu64 " lie outside the register commands",
                         t.n_commands, at);
    if (!has_trailer(p->commands + t.first + t.n_commands, t.enable))
        return error_set(e, STATUS_MODEL_INVALID,
                         "what follows its commands starts something else");
    memset(r->marks + t.first, MARK_TASK, t.n_commands);
    p->tasks[p->n_tasks++] = t;
    return 0;
}

// A record of nothing fills the section.
static bool is_padding(const uint8_t *record)
{
    static const uint8_t zero[TASK_BYTES];
    return memcmp(record, zero, TASK_BYTES) == 0;
}

int program_read_records(struct program_reader *r, struct error *e)
{
    const struct rknn_container *c = &r->f->container;
    bool lite = c->kind == RKNN_LITE;
    struct bytes records = lite ? c->tasks : data_of_kind(r->f, RKNN_KIND_TASKS);
    struct bytes commands = lite ? c->registers : data_of_kind(r->f, RKNN_KIND_REGISTERS);
    struct rknn_program *p = r->p;
    size_t n = records.size / TASK_BYTES;
    if (n > MAX_TASKS)
        return error_set(e, STATUS_MODEL_INVALID, "%zu tasks, at most %u are allowed", n,
                         MAX_TASKS);
    if (lite && n && is_padding(records.data + (n - 1) * TASK_BYTES))
        n--;
    p->n_commands = commands.size / 8;
    p->commands = pool_alloc(&p->pool, p->n_commands, sizeof *p->commands);
    p->tasks = pool_alloc(&p->pool, n, sizeof *p->tasks);
    r->marks = calloc(p->n_commands + 1, 1);
    if (!p->commands || !p->tasks || !r->marks)
        return error_no_memory(e, "the model's programs", commands.size);
    for (uint64_t i = 0; i < p->n_commands; i++)
        p->commands[i] = read_le64(commands.data + 8 * i);
    for (size_t i = 0; i < n; i++)
        if (read_record(r, records.data + i * TASK_BYTES, e) < 0)
            return error_prefix(e, "task %zu", i);
    return 0;
}

// ---- whose addresses: container 6 ----

static int compare_tensor_names(const void *a, const void *b)
{
    const struct rknn_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static const struct rknn_tensor **sorted_names(struct program_reader *r)
{
    const struct rknn_file *f = r->f;
    const struct rknn_tensor **sorted = pool_alloc(&r->p->pool, f->n_tensors, sizeof *sorted);
    for (uint32_t i = 0; sorted && i < f->n_tensors; i++)
        sorted[i] = &f->tensors[i];
    if (sorted && f->n_tensors)
        qsort(sorted, f->n_tensors, sizeof *sorted, compare_tensor_names);
    return sorted;
}

// Pairs of {i32 offset in the tensor, i32 number of a command}.
static int patch_pairs(struct program_reader *r, struct bytes pairs, uint32_t tensor,
                       struct error *e)
{
    int s = 0;
    for (size_t at = 0; at + 8 <= pairs.size && s == 0; at += 8) {
        int32_t offset = (int32_t)read_le32(pairs.data + at);
        struct rknn_patch patch = {.command = read_le32(pairs.data + at + 4),
                                   .offset = (uint64_t)offset,
                                   .tensor = tensor};
        s = offset < 0 ? error_set(e, STATUS_MODEL_INVALID, "an offset of %d bytes", offset)
                       : program_patch(r, &patch, e);
    }
    return s;
}

// Graph slot 7: tables of a tensor's name and its pairs.
int program_patch_named(struct program_reader *r, struct error *e)
{
    const struct rknn_tensor **sorted = sorted_names(r);
    struct fb_list list = fb_tables(&r->graph, 7);
    if (!sorted)
        return error_no_memory(e, "the model's programs", 0);
    for (uint32_t i = 0; i < list.n; i++) {
        struct fb_table t = fb_list_get(&list, i);
        struct rknn_tensor key = {.name = pool_text(&r->p->pool, fb_vector(&t, 0, 1))};
        const struct rknn_tensor *wanted = &key, **found = NULL;
        if (!key.name)
            return error_no_memory(e, "the model's programs", 0);
        if (r->f->n_tensors)
            found = bsearch(&wanted, sorted, r->f->n_tensors, sizeof *sorted, compare_tensor_names);
        if (!found)
            return error_set(e, STATUS_MODEL_INVALID,
                             "addresses of tensor \"%s\", which does not exist", key.name);
        int s = patch_pairs(r, fb_vector(&t, 1, 8), (uint32_t)(*found - r->f->tensors), e);
        if (s < 0)
            return error_prefix(e, "addresses of %s", key.name);
    }
    return 0;
}

// ---- whose addresses: container 0x1004 ----

// There, addresses are offsets into one memory: commands, constants of sub-tasks (which programs
// also write), weights and arena, without gaps. Of the parts that we make of it, the arena begins
// with the constants of sub-tasks.
static int patch_flat(struct program_reader *r, uint64_t command, bool writes, struct error *e)
{
    const struct rknn_container *c = &r->f->container;
    uint64_t at = rknn_command_value(r->p->commands[command]), commands = c->registers.size;
    uint64_t weights = commands + c->scratch.size, arena = weights + c->weights.size;
    struct rknn_patch patch = {.command = command, .tensor = RKNN_NO_TENSOR};
    patch.part = at >= weights && at < arena ? RKNN_PART_CONSTANTS : RKNN_PART_ARENA;
    if (at < commands)
        return error_set(e, STATUS_MODEL_INVALID,
                         "register command %" PRIu64 " takes the address of commands", command);
    if (patch.part == RKNN_PART_CONSTANTS && writes)
        return error_set(e, STATUS_MODEL_INVALID, "register command %" PRIu64 " writes to weights",
                         command);
    patch.offset = patch.part == RKNN_PART_CONSTANTS ? at - weights
                   : at < weights                    ? at - commands
                                  : at - arena + align_up(c->scratch.size, RKNN_PART_ALIGN);
    return program_patch(r, &patch, e);
}

int program_patch_lite(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    bool writes;
    int s = 0;
    for (uint64_t i = 0; i < p->n_commands && s == 0; i++)
        if ((r->marks[i] & MARK_TASK) && rknn_command_value(p->commands[i]) &&
            program_is_address(r->chip, p->commands[i] & 0xffff, &writes))
            s = patch_flat(r, i, writes, e);
    return s;
}

int program_place_lite(struct program_reader *r, struct error *e)
{
    const struct rknn_container *c = &r->f->container;
    struct rknn_program *p = r->p;
    uint64_t arena = align_up(c->scratch.size, RKNN_PART_ALIGN);
    p->constants_size = c->weights.size;
    p->arena_size = arena + c->internal_size;
    for (uint32_t i = 0; i < r->f->n_tensors; i++) {
        const struct rknn_tensor *t = &r->f->tensors[i];
        struct rknn_place *place = &p->places[i];
        bool sub_task = t->kind == RKNN_KIND_SUBTASK_CONSTANT && c->scratch.size;
        *place = (struct rknn_place){.part = RKNN_N_PARTS};
        if (sub_task)
            *place = (struct rknn_place){RKNN_PART_ARENA, t->offset};
        else if (t->kind >= RKNN_KIND_INPUT && t->kind <= RKNN_KIND_ACTIVATION)
            *place = (struct rknn_place){RKNN_PART_ARENA, arena + t->offset};
        else if (t->data.size)
            *place = (struct rknn_place){RKNN_PART_CONSTANTS, t->offset};
        uint64_t end = place->offset + t->size;
        if (place->part == RKNN_PART_ARENA && end > p->arena_size)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s ends at byte %" PRIu64 " of a memory of %" PRIu64, t->name,
                             end, p->arena_size);
    }
    return 0;
}
