// Each block has two groups of registers, and a task writes the one that the block's pointer
// selects: what a task sees is what was written last to each register of its group. That is
// followed through a whole chain. Registers that other tasks of the chain write, and none of this
// group so far, are written as zero: other programs may have left something there.
#include "npu/open/provider/rocket_expand.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define BLOCKS        10   // of 4096 bytes each; the first is the PC's
#define REGISTERS     1024 // of a block
#define TRAILER       4
#define PROGRAM_ALIGN 8 // words: 64 bytes
#define S_POINTER     0x4u
#define OP_ENABLE     0x8u
#define POINTER_CLEAR 0x10u
#define POINTER_FLIPS 0x2u
#define CBUF_CON0     0x1040u
#define CBUF_REUSE    0x3000u // what the task before has loaded is used again
#define EW_CFG        0x4070u
#define EW_BYPASS     0x81u // all of it, its table
#define TABLE_ACCESS  0x4100u
#define TABLE_WRITE   0x20000u
#define TABLE_DATA    0x4104u
#define LAST_OF_CHAIN 0x0101000000000010ull // PC_BASE_ADDRESS: no next program
#define NO_AMOUNT     0x0101000000000014ull
#define BARRIER       0x0041000000000000ull
#define START         0x0081000000000008ull

// Which blocks a bit of a task's enable mask starts, by their numbers.
static const struct {
    unsigned bit, block;
} starts[] = {{0, 1}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}};
#define N_STARTS   (sizeof starts / sizeof *starts)
#define ENABLE_CNA 0x1u
#define ENABLE_DPU 0x8u

struct expand_group {
    uint32_t value[REGISTERS];
};

struct expand_block {
    struct expand_group group[2];
    uint32_t pointer_value; // of S_POINTER
    unsigned pointer;       // group that is written
    bool flips;
    uint16_t target[REGISTERS]; // of commands; 0: no task writes it
    bool has_pointer;
};

struct expand {
    struct expand_block block[BLOCKS];
    bool loads_table; // the last task
};

static uint32_t register_of(uint64_t word)
{
    return (uint32_t)word & 0xffff;
}

static uint32_t value_of(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

static bool is_table(uint32_t reg)
{
    return reg == TABLE_ACCESS || reg == TABLE_DATA;
}

// All registers that the chain's tasks write.
static void find_registers(struct expand *x, const uint64_t *commands,
                           const struct provider_task *tasks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < tasks[i].n_commands; k++) {
            uint64_t word = commands[tasks[i].first + k];
            uint32_t reg = register_of(word), block = reg >> 12;
            uint16_t target = (uint16_t)(word >> 48);
            if (!target || !block || block >= BLOCKS)
                continue;
            if ((reg & 0xfff) == S_POINTER)
                x->block[block].has_pointer = true;
            x->block[block].target[(reg & 0xfff) / 4] = target;
        }
}

// A driver sets pointers of CNA and CORE, and those of others are set by tasks: all flip.
static struct expand *expand_new(const uint64_t *commands, const struct provider_task *tasks,
                                 uint32_t n)
{
    struct expand *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    for (unsigned i = 0; i < BLOCKS; i++)
        x->block[i].flips = true;
    find_registers(x, commands, tasks, n);
    return x;
}

static void write_pointer(struct expand_block *b, uint32_t value)
{
    b->pointer_value = value;
    b->flips = value & POINTER_FLIPS;
    if (value & POINTER_CLEAR)
        b->pointer = 0;
    else if (!b->flips)
        b->pointer = value & 1;
}

static void write_task(struct expand *x, const uint64_t *commands, const struct provider_task *t)
{
    x->loads_table = false;
    for (uint32_t k = 0; k < t->n_commands; k++) {
        uint64_t word = commands[t->first + k];
        uint32_t reg = register_of(word), block = reg >> 12;
        if (!(word >> 48) || !block || block >= BLOCKS)
            continue;
        struct expand_block *b = &x->block[block];
        x->loads_table = x->loads_table || (reg == TABLE_ACCESS && value_of(word) & TABLE_WRITE);
        if ((reg & 0xfff) == S_POINTER)
            write_pointer(b, value_of(word));
        else
            b->group[b->pointer].value[(reg & 0xfff) / 4] = value_of(word);
    }
}

static uint32_t value_at(const struct expand *x, uint32_t reg)
{
    const struct expand_block *b = &x->block[reg >> 12];
    return b->group[b->pointer].value[(reg & 0xfff) / 4];
}

// Pointers of the blocks that worked go on.
static void end_task(struct expand *x, const struct provider_task *t)
{
    for (size_t i = 0; i < N_STARTS; i++)
        if (t->enable >> starts[i].bit & 1)
            x->block[starts[i].block].pointer ^= x->block[starts[i].block].flips;
}

// ---- what the driver can end ----

// It waits for the DPU behind a convolution: other tasks are not seen to end, or not for sure.
static const char *why_not(const struct expand *x, const struct provider_task *t)
{
    if (!(t->enable & ENABLE_DPU))
        return "a task of pooling alone: the driver waits for another block's interrupt";
    if (x->loads_table)
        return "a task that loads a table alone, which the driver does not see end";
    if (!(t->enable & ENABLE_CNA))
        return "a task from memory to memory, which the driver does not see end";
    if (!(value_at(x, EW_CFG) & EW_BYPASS))
        return "a table, which only a task could load that the driver does not see end";
    return NULL;
}

int rocket_expand_judge(const uint64_t *commands, struct provider_task *tasks, uint32_t n,
                        struct error *e)
{
    cleanup(free_p) struct expand *x = expand_new(commands, tasks, n);
    if (!x)
        return error_no_memory(e, "a program's registers", sizeof *x);
    for (uint32_t i = 0; i < n; i++) {
        write_task(x, commands, &tasks[i]);
        tasks[i].unable = why_not(x, &tasks[i]);
        end_task(x, &tasks[i]);
    }
    return 0;
}

// ---- programs ----

static uint64_t word_of(uint16_t target, uint32_t reg, uint32_t value)
{
    return (uint64_t)target << 48 | (uint64_t)value << 16 | reg;
}

// What is left of the buffer from task to task is not known to stay there from start to start.
static uint32_t value_to_write(const struct expand_block *b, uint32_t reg)
{
    uint32_t value = b->group[b->pointer].value[(reg & 0xfff) / 4];
    return reg == CBUF_CON0 ? value & ~CBUF_REUSE : value;
}

// The registers of a block; NULL in `to`: they are counted.
static uint32_t write_registers(const struct expand_block *b, uint32_t block, uint64_t *to)
{
    uint32_t n = 0;
    if (b->has_pointer && to)
        to[n] = word_of(b->target[S_POINTER / 4], block << 12 | S_POINTER, b->pointer_value);
    n += b->has_pointer;
    for (uint32_t i = 0; i < REGISTERS; i++) {
        uint32_t reg = block << 12 | i * 4;
        if (!b->target[i] || i * 4 == S_POINTER || i * 4 == OP_ENABLE || is_table(reg))
            continue;
        if (to)
            to[n] = word_of(b->target[i], reg, value_to_write(b, reg));
        n++;
    }
    return n;
}

// Registers of all blocks that work, and of those that no enable bit starts.
static uint32_t write_program(const struct expand *x, const struct provider_task *t, uint64_t *to)
{
    bool works[BLOCKS] = {[2] = true, [8] = true, [9] = true};
    uint32_t n = 0;
    for (size_t i = 0; i < N_STARTS; i++)
        works[starts[i].block] = t->enable >> starts[i].bit & 1;
    for (uint32_t block = 1; block < BLOCKS; block++)
        if (works[block])
            n += write_registers(&x->block[block], block, to ? to + n : NULL);
    if (to) {
        const uint64_t trailer[TRAILER] = {LAST_OF_CHAIN, NO_AMOUNT, BARRIER,
                                           START | (uint64_t)t->enable << 16};
        memcpy(to + n, trailer, sizeof trailer);
    }
    return n + TRAILER;
}

// Counts (`words` NULL), or writes.
static uint64_t walk_chain(struct expand *x, const uint64_t *commands,
                           const struct provider_task *tasks, uint32_t n,
                           struct rocket_program *programs, uint64_t *words)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        write_task(x, commands, &tasks[i]);
        programs[i] = (struct rocket_program){.first = at};
        if (!tasks[i].unable)
            programs[i].words = write_program(x, &tasks[i], words ? words + at : NULL);
        at += (programs[i].words + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN;
        end_task(x, &tasks[i]);
    }
    return at;
}

int rocket_expand(const uint64_t *commands, const struct provider_task *tasks, uint32_t n,
                  struct rocket_program *programs, uint64_t **words, uint64_t *n_words,
                  struct error *e)
{
    cleanup(free_p) struct expand *count = expand_new(commands, tasks, n);
    cleanup(free_p) struct expand *write = expand_new(commands, tasks, n);
    if (!count || !write)
        return error_no_memory(e, "a program's registers", sizeof *count);
    uint64_t total = walk_chain(count, commands, tasks, n, programs, NULL);
    uint64_t *made = calloc(total + 1, sizeof *made);
    if (!made)
        return error_no_memory(e, "programs", total * sizeof *made);
    walk_chain(write, commands, tasks, n, programs, made);
    *words = made;
    *n_words = total;
    return 0;
}
