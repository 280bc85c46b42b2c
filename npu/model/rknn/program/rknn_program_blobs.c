// Containers 1 and 2: each task has a blob of commands of its own, {value:32, register:16, 0:16}
// from the top. They are put into one stream as container 6 has it, with trailers and links.
#include <inttypes.h>
#include <stdlib.h>

#include "npu/model/rknn/program/rknn_program_parts.h"

#define MAX_COMMANDS ((uint64_t)1 << 26)
#define TASK_ALIGN   8 // words

// A task as its node's table says it (slots).
struct blob {
    uint32_t node, commands, tables, enable, core, n_cores;
    struct bytes addresses; // 24 bytes each: u32 register, i32 tensor, u64 offset, u32 row, u32 0
};

// Calls back for each task of each node.
typedef int blob_each(struct program_reader *r, const struct blob *b, void *user, struct error *e);

static int read_blob(struct program_reader *r, const struct fb_table *t, uint32_t node,
                     struct blob *b, struct error *e)
{
    *b = (struct blob){.node = node,
                       .commands = fb_u32(t, 0, 0),
                       .tables = fb_u32(t, 1, 0),
                       .enable = fb_u32(t, 3, 0),
                       .addresses = fb_vector(t, 5, RKNN_RELOCATION_BYTES),
                       .core = fb_u32(t, 6, 0),
                       .n_cores = fb_u32(t, 8, 0)};
    b->n_cores = b->n_cores ? b->n_cores : 1; // chips of one core say nothing
    if (b->commands >= r->f->n_tensors || b->tables >= r->f->n_tensors)
        return error_set(e, STATUS_MODEL_INVALID, "a task of node %u (%s) has no commands", node,
                         r->f->nodes[node].name);
    if (b->n_cores > RKNN_MAX_CORES || b->core >= b->n_cores)
        return error_set(e, STATUS_MODEL_INVALID, "a task of node %u (%s) is for core %u of %u",
                         node, r->f->nodes[node].name, b->core, b->n_cores);
    if (!b->enable || b->enable & ~ENABLE_ALL || !(b->enable & (ENABLE_DPU | ENABLE_PPU)))
        return error_set(e, STATUS_MODEL_INVALID, "a task of node %u (%s) starts blocks %#x", node,
                         r->f->nodes[node].name, b->enable);
    return 0;
}

// The tasks for one core of n, in the order of nodes.
static int each_blob(struct program_reader *r, uint32_t n_cores, uint32_t core, blob_each *call,
                     void *user, struct error *e)
{
    struct fb_list nodes = fb_tables(&r->graph, 1);
    for (uint32_t i = 0; i < r->f->n_nodes && i < nodes.n; i++) {
        struct fb_table node = fb_list_get(&nodes, i);
        struct fb_list tasks = fb_tables(&node, 6);
        for (uint32_t k = 0; k < tasks.n; k++) {
            struct fb_table t = fb_list_get(&tasks, k);
            struct blob b;
            int s = read_blob(r, &t, i, &b, e);
            if (s == 0 && b.n_cores == n_cores && b.core == core)
                s = call(r, &b, user, e);
            if (s < 0)
                return s;
        }
    }
    return 0;
}

// ---- how much there is ----

struct size {
    uint64_t words;
    uint32_t tasks;
};

static uint64_t words_of(const struct program_reader *r, uint32_t tensor)
{
    return align_up(r->f->tensors[tensor].data.size / 8 + TRAILER_WORDS, TASK_ALIGN);
}

static int count_blob(struct program_reader *r, const struct blob *b, void *user, struct error *e)
{
    struct size *size = user;
    size->words += words_of(r, b->commands) + (b->tables ? words_of(r, b->tables) : 0);
    size->tasks += b->tables ? 2 : 1;
    return size->words <= MAX_COMMANDS
               ? 0
               : error_set(e, STATUS_MODEL_INVALID, "more than %" PRIu64 " register commands",
                           MAX_COMMANDS);
}

// ---- one stream ----

// What is being filled: the tasks of one core of a schedule.
struct stream {
    struct rknn_range *tasks; // [node * n_cores + core]
    uint32_t n_cores, core;
    uint64_t link; // the trailer of the core's task before; 0: there is none
    uint64_t at;
};

// The unit that a register is of, as a command says it.
static uint64_t unit_of(uint32_t reg)
{
    static const uint16_t units[] = {0, 0x201, 0x401, 0x801, 0x1001, 0x2001, 0x4001, 0x8001, 0x401};
    return reg >> 12 < sizeof units / sizeof *units ? units[reg >> 12] : 0;
}

static int copy_words(struct program_reader *r, struct bytes blob, uint64_t at, struct error *e)
{
    for (uint64_t i = 0; i < blob.size / 8; i++) {
        uint64_t word = read_le64(blob.data + 8 * i), reg = word >> 16 & 0xffff;
        uint64_t unit = unit_of((uint32_t)reg);
        if (!unit || word & 0xffff)
            return error_set(e, STATUS_MODEL_INVALID,
                             "the register command %#018" PRIx64 " is for no unit that is known",
                             word);
        r->p->commands[at + i] = unit << 48 | word >> 32 << 16 | reg;
    }
    return 0;
}

// The trailer of the core's task before leads to this one.
static void link_to(struct program_reader *r, uint64_t trailer, const struct rknn_program_task *t)
{
    uint64_t amount = rknn_program_amount(r->chip, t->n_commands);
    if (!trailer)
        return;
    r->p->commands[trailer] = WORD_LINK | t->first * 8 << 16;
    r->p->commands[trailer + 1] = WORD_AMOUNT | amount << 16;
}

static int add_program(struct program_reader *r, struct stream *s, uint32_t node, uint32_t blob,
                       uint32_t enable, struct error *e)
{
    struct rknn_program *p = r->p;
    struct bytes words = r->f->tensors[blob].data;
    struct rknn_program_task t = {
        .node = node,
        .enable = enable,
        .interrupts = enable & ENABLE_PPU ? INTERRUPTS_PPU : INTERRUPTS_DPU,
        .n_commands = (uint32_t)(words.size / 8),
        .first = s->at,
    };
    struct rknn_range *range = &s->tasks[(uint64_t)node * s->n_cores + s->core];
    if (!t.n_commands)
        return error_set(e, STATUS_MODEL_INVALID, "a task of node %u (%s) has no commands", node,
                         r->f->nodes[node].name);
    if (copy_words(r, words, s->at, e) < 0)
        return error_prefix(e, "node %u (%s)", node, r->f->nodes[node].name);
    memset(r->marks + t.first, MARK_TASK, t.n_commands);
    link_to(r, s->link, &t);
    s->link = t.first + t.n_commands;
    p->commands[s->link + 2] = WORD_BARRIER;
    p->commands[s->link + 3] = WORD_ENABLE | (uint64_t)enable << 16;
    if (!range->n++)
        range->first = p->n_tasks;
    p->tasks[p->n_tasks++] = t;
    s->at += words_of(r, blob);
    return 0;
}

static int add_blob(struct program_reader *r, const struct blob *b, void *user, struct error *e)
{
    struct stream *s = user;
    const uint32_t loads = ENABLE_DPU | ENABLE_DPU << 1; // as container 6 has it: DPU and its RDMA
    int status = b->tables ? add_program(r, s, b->node, b->tables, loads, e) : 0;
    return status == 0 ? add_program(r, s, b->node, b->commands, b->enable, e) : status;
}

// A node without tasks for several cores is done by the first of them alone.
static void share_alone(const struct program_reader *r, uint32_t node, struct stream *s)
{
    struct rknn_range *ranges = &s->tasks[(uint64_t)node * s->n_cores];
    bool shared = false;
    for (uint32_t core = 0; core < s->n_cores; core++)
        shared = shared || ranges[core].n;
    if (!shared)
        ranges[0] = r->p->one[0].tasks[node];
}

static int add_schedule(struct program_reader *r, uint32_t n_cores, struct stream *s,
                        struct rknn_schedule *ret, struct error *e)
{
    s->n_cores = n_cores;
    s->tasks = pool_alloc(&r->p->pool, (uint64_t)r->f->n_nodes * n_cores, sizeof *s->tasks);
    if (!s->tasks)
        return error_no_memory(e, "the model's programs", 0);
    uint32_t before = r->p->n_tasks;
    for (s->core = 0; s->core < n_cores; s->core++) {
        s->link = 0;
        int status = each_blob(r, n_cores, s->core, add_blob, s, e);
        if (status < 0)
            return status;
    }
    for (uint32_t i = 0; n_cores > 1 && i < r->f->n_nodes; i++)
        share_alone(r, i, s);
    if (n_cores == 1 || r->p->n_tasks > before)
        *ret = (struct rknn_schedule){n_cores, s->tasks};
    return 0;
}

int program_read_blobs(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    struct size size = {.words = TASK_ALIGN}; // a link to word 0 would be none
    struct stream stream = {.at = TASK_ALIGN};
    int s = 0;
    for (uint32_t n = 1; n <= RKNN_MAX_CORES && s == 0; n++)
        for (uint32_t core = 0; core < n && s == 0; core++)
            s = each_blob(r, n, core, count_blob, &size, e);
    if (s < 0)
        return s;
    p->n_commands = size.words;
    p->commands = pool_alloc(&p->pool, size.words, sizeof *p->commands);
    p->tasks = pool_alloc(&p->pool, size.tasks, sizeof *p->tasks);
    r->marks = calloc(size.words, 1);
    if (!p->commands || !p->tasks || !r->marks)
        return error_no_memory(e, "the model's programs", size.words * 8);
    s = add_schedule(r, 1, &stream, &p->one[0], e);
    for (uint32_t n = 2; n <= RKNN_MAX_CORES && s == 0; n++)
        s = add_schedule(r, n, &stream, &p->several[n - 2], e);
    return s;
}

// ---- whose addresses ----

// Which of the stream's tasks is next, as each_blob() comes to them in the same order.
struct position {
    uint32_t task;
};

// All of the task's writes to the register take the tensor's address.
static int patch_register(struct program_reader *r, const struct rknn_program_task *t,
                          const uint8_t *entry, struct error *e)
{
    uint32_t reg = read_le32(entry), tensor = read_le32(entry + 4), n = 0;
    struct rknn_patch patch = {.tensor = tensor, .offset = read_le64(entry + 8)};
    if (tensor >= r->f->n_tensors || patch.offset > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "register %#x takes an address in tensor %u, which does not exist", reg,
                         tensor);
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
        if ((r->p->commands[i] & 0xffff) != reg)
            continue;
        patch.command = i;
        n++;
        if (program_patch(r, &patch, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    return n ? 0
             : error_set(e, STATUS_MODEL_INVALID,
                         "register %#x takes an address and is not in the task", reg);
}

static int patch_blob(struct program_reader *r, const struct blob *b, void *user, struct error *e)
{
    struct position *at = user;
    at->task += b->tables != 0;
    const struct rknn_program_task *t = &r->p->tasks[at->task++];
    for (size_t i = 0; i + RKNN_RELOCATION_BYTES <= b->addresses.size; i += RKNN_RELOCATION_BYTES)
        if (patch_register(r, t, b->addresses.data + i, e) < 0)
            return error_prefix(e, "node %u (%s)", b->node, r->f->nodes[b->node].name);
    return 0;
}

int program_patch_blobs(struct program_reader *r, struct error *e)
{
    struct position at = {0};
    int s = 0;
    for (uint32_t n = 1; n <= RKNN_MAX_CORES && s == 0; n++)
        for (uint32_t core = 0; core < n && s == 0; core++)
            s = each_blob(r, n, core, patch_blob, &at, e);
    return s;
}
