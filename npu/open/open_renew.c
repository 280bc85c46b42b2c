// A node is followed through its tasks, from its front, where all begins anew. What each block's
// two groups of registers hold then is known: the command that has written it last. A task's copy
// is its own commands, and behind them those that its blocks' groups hold from before. Two such
// tasks one after the other and both groups are as they were.
//
// Copies of commands are patched as these are, so nobody else has to know of them: contexts write
// them with the addresses of their own memory, and what binds a program's dma-buf finds them among
// the commands of the port.
//
// What is refused is not cut, and the node is lent as before: no error comes of it. Registers of
// tables are no group's, and what was in the buffer nobody brings back; open_cuts.c has looked at
// both.
#include "npu/open/open_renew.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define BLOCKS        10   // of 4096 bytes each; the first is the PC's
#define REGISTERS     1024 // of a block
#define GROUPED       7    // blocks 1 to 7 are started by bits 0 to 6 of an enable word
#define TRAILER       4
#define PROGRAM_ALIGN 8 // words: 64 bytes
#define S_POINTER     0x4u
#define OP_ENABLE     0x8u
#define POINTER_CORE  0xf0000000u
#define IN_TURN       0xeu    // of S_POINTER: groups take turns
#define IN_PLACE      0x30u   // it is always the first
#define TABLES        0x4100u // no registers that a group holds
#define TABLES_END    0x41a0u
#define WORD_LINK     0x0101000000000010u
#define WORD_AMOUNT   0x0101000000000014u
#define AMOUNT        0xffffu
#define NOWHERE       UINT64_MAX

struct block {
    uint64_t source[2][REGISTERS]; // the command that has written it, and one more; 0: none has
    bool written[REGISTERS];       // in either group
    uint64_t pointer_source;       // likewise, of S_POINTER
    uint32_t pointer_value;
    unsigned group;
};

// A node's tasks.
struct walk {
    struct rknn_program *p;
    struct block block[BLOCKS];
    const struct rknn_range *tasks;
    bool *whole; // [task * BLOCKS + block]: what the block's group holds is known in full
};

// What is added to a program.
struct renew {
    struct npu_model *m;
    struct pool pool; // of what grows
    uint64_t n_file_commands;
    uint64_t *source; // of each command that is new: the file's that it is a copy of, or NOWHERE
    uint64_t n_source, source_room, commands_room, patches_room;
    uint32_t tasks_room;
    uint64_t *patch_of; // of each of the file's commands: its patch, and one more; 0: none
};

// ---- a node's registers ----

// False: what the task writes is not followed here.
static bool write_command(struct walk *w, uint64_t command)
{
    uint64_t word = w->p->commands[command];
    uint32_t reg = (uint32_t)word & 0xffff, value = rknn_command_value(word), in = reg & 0xfff;
    struct block *b = &w->block[reg >> 12 < BLOCKS ? reg >> 12 : 0];
    if (!(word >> 48) || b == w->block || in % 4 || in == OP_ENABLE)
        return false;
    if (reg >= TABLES && reg < TABLES_END)
        return true;
    if (in != S_POINTER || reg >> 12 > GROUPED) {
        b->source[b->group][in / 4] = command + 1;
        b->written[in / 4] = true;
        return true;
    }
    uint32_t before = b->pointer_source ? b->pointer_value : value;
    b->pointer_source = command + 1;
    b->pointer_value = value;
    return value == before &&
           ((value & ~POINTER_CORE) == IN_TURN || (value & ~POINTER_CORE) == IN_PLACE);
}

// Programs of RK3588 leave the pointers of CNA and CORE to the driver, which has them take turns at
// the front of each submission.
static bool takes_turns(const struct block *b)
{
    return !b->pointer_source || (b->pointer_value & ~POINTER_CORE) == IN_TURN;
}

// Whether a task works with the block's registers; nothing starts those of the last ones.
static bool is_started(const struct rknn_program_task *t, unsigned block)
{
    return block > GROUPED || t->enable >> (block - 1) & 1;
}

// Whether the group that a task sees has each register that any task of the node has written so
// far; what else there is the node's front would not have needed either.
static bool is_whole(const struct block *b)
{
    bool whole = true;
    for (uint32_t i = 0; i < REGISTERS; i++)
        whole = whole && (!b->written[i] || b->source[b->group][i]);
    return whole;
}

static bool write_task(struct walk *w, uint32_t k)
{
    const struct rknn_program_task *t = &w->p->tasks[w->tasks->first + k];
    bool followed = true;
    for (uint64_t i = t->first; i < t->first + t->n_commands && followed; i++)
        followed = write_command(w, i);
    for (unsigned b = 1; b < BLOCKS; b++)
        w->whole[(size_t)k * BLOCKS + b] = is_whole(&w->block[b]);
    return followed;
}

static void end_task(struct walk *w, uint32_t k)
{
    const struct rknn_program_task *t = &w->p->tasks[w->tasks->first + k];
    for (unsigned b = 1; b <= GROUPED; b++)
        w->block[b].group ^= is_started(t, b) && takes_turns(&w->block[b]);
}

// Whether a part that begins at the k-th task has all registers, with copies from there on: those
// of the first two tasks that start a block.
static bool part_is_whole(const struct walk *w, uint32_t k)
{
    bool whole = true;
    for (unsigned b = 1; b < BLOCKS; b++) {
        unsigned n = 0;
        for (uint32_t i = k; i < w->tasks->n && n < 2; i++)
            if (is_started(&w->p->tasks[w->tasks->first + i], b)) {
                whole = whole && w->whole[(size_t)i * BLOCKS + b];
                n++;
            }
    }
    return whole;
}

// ---- copies ----

static int add_word(struct renew *r, uint64_t word, uint64_t source, struct error *e)
{
    struct rknn_program *p = &r->m->program;
    if (!pool_reserve(&r->pool, p->commands, p->n_commands, r->commands_room, p->n_commands + 1) ||
        !pool_reserve(&r->pool, r->source, r->n_source, r->source_room, r->n_source + 1))
        return error_no_memory(e, "parts of nodes", p->n_commands * 8);
    p->commands[p->n_commands++] = word;
    r->source[r->n_source++] = source;
    return 0;
}

static int add_patch(struct renew *r, struct rknn_patch patch, struct error *e)
{
    struct rknn_program *p = &r->m->program;
    patch.command = p->n_commands;
    if (!pool_reserve(&r->pool, p->patches, p->n_patches, r->patches_room, p->n_patches + 1))
        return error_no_memory(e, "parts of nodes", p->n_patches * sizeof patch);
    p->patches[p->n_patches++] = patch;
    return 0;
}

static int copy_command(struct renew *r, uint64_t command, struct error *e)
{
    const struct rknn_program *p = &r->m->program;
    uint64_t patch = r->patch_of[command];
    int s = patch ? add_patch(r, p->patches[patch - 1], e) : 0;
    return s < 0 ? s : add_word(r, p->commands[command], command, e);
}

// What the task does not write of its blocks' registers.
static int copy_registers(struct renew *r, const struct walk *w, const struct rknn_program_task *t,
                          struct error *e)
{
    int s = 0;
    for (unsigned block = 1; block < BLOCKS && s == 0; block++) {
        const struct block *b = &w->block[block];
        for (uint32_t i = 0; i < REGISTERS && s == 0 && is_started(t, block); i++) {
            uint64_t source = b->source[b->group][i];
            if (source && (source <= t->first || source > t->first + t->n_commands))
                s = copy_command(r, source - 1, e);
        }
    }
    return s;
}

// In front of all others, as it says which group they are for.
static int copy_pointers(struct renew *r, const struct walk *w, const struct rknn_program_task *t,
                         struct error *e)
{
    int s = 0;
    for (unsigned b = 1; b <= GROUPED && s == 0; b++) {
        uint64_t source = w->block[b].pointer_source;
        if (source && is_started(t, b) && (source <= t->first || source > t->first + t->n_commands))
            s = copy_command(r, source - 1, e);
    }
    return s;
}

// Where the PC fetches from.
static int align_program(struct renew *r, struct error *e)
{
    int s = 0;
    while (r->m->program.n_commands % PROGRAM_ALIGN && s == 0)
        s = add_word(r, 0, NOWHERE, e);
    return s;
}

// Words of a trailer: the last copy leads where its task does. The others are linked when the next
// one is there.
static int copy_trailer(struct renew *r, const struct rknn_program_task *t, bool last,
                        struct error *e)
{
    uint64_t from = t->first + t->n_commands, amount = r->m->program.commands[from + 1];
    int s = last ? copy_command(r, from, e) : add_word(r, WORD_LINK, NOWHERE, e);
    if (s == 0)
        s = last ? copy_command(r, from + 1, e) : add_word(r, amount | WORD_AMOUNT, NOWHERE, e);
    for (unsigned i = 2; i < TRAILER && s == 0; i++)
        s = copy_command(r, from + i, e);
    return s;
}

// The trailer in front of the task that was added last leads to it.
static int link_task(struct renew *r, const struct rknn_program_task *from,
                     const struct rknn_program_task *to, struct error *e)
{
    struct rknn_program *p = &r->m->program;
    uint64_t at = from->first + from->n_commands, amount = p->commands[at + 1];
    uint32_t value = rknn_command_value(amount) & ~AMOUNT;
    p->commands[at + 1] =
        rknn_command_with(amount, value | rknn_program_amount(r->m->chip, to->n_commands));
    int s = add_patch(r,
                      (struct rknn_patch){.offset = 8 * to->first,
                                          .part = RKNN_PART_COMMANDS,
                                          .tensor = RKNN_NO_TENSOR},
                      e);
    if (s == 0)
        p->patches[p->n_patches - 1].command = at;
    return s;
}

static int copy_task(struct renew *r, const struct walk *w, uint32_t k, bool linked,
                     struct error *e)
{
    struct rknn_program *p = &r->m->program;
    struct rknn_program_task t = p->tasks[w->tasks->first + k], copy = t;
    int s = align_program(r, e);
    copy.first = p->n_commands;
    if (s == 0)
        s = copy_pointers(r, w, &t, e);
    for (uint64_t i = t.first; i < t.first + t.n_commands && s == 0; i++)
        s = copy_command(r, i, e);
    if (s == 0)
        s = copy_registers(r, w, &t, e);
    copy.n_commands = (uint32_t)(p->n_commands - copy.first);
    if (s == 0)
        s = copy_trailer(r, &t, k + 1 == w->tasks->n, e);
    if (s < 0)
        return s;
    if (!pool_reserve(&r->pool, p->tasks, p->n_tasks, r->tasks_room, p->n_tasks + 1))
        return error_no_memory(e, "parts of nodes", p->n_tasks * sizeof copy);
    p->tasks[p->n_tasks++] = copy;
    return linked ? link_task(r, &p->tasks[p->n_tasks - 2], &p->tasks[p->n_tasks - 1], e) : 0;
}

// ---- a node ----

// The first place that copies would open; n: none.
static uint32_t find_first(const struct walk *w, const struct open_cuts *cuts)
{
    uint32_t k = 1;
    while (k < w->tasks->n && !(cuts->short_of[w->tasks->first + k] && part_is_whole(w, k)))
        k++;
    return k;
}

// Followed twice: what can be a part is known at its end alone.
static int renew_node(struct renew *r, struct walk *w, struct error *e)
{
    struct open_cuts *cuts = &r->m->cuts;
    uint32_t n = w->tasks->n, at = w->tasks->first;
    bool followed = true;
    cleanup(free_p) bool *whole = w->whole = calloc((size_t)n * BLOCKS, sizeof *whole);
    if (!whole)
        return error_no_memory(e, "parts of nodes", (size_t)n * BLOCKS);
    memset(w->block, 0, sizeof w->block);
    for (uint32_t k = 0; k < n && followed; k++) {
        followed = write_task(w, k);
        end_task(w, k);
    }
    uint32_t first = followed ? find_first(w, cuts) : n;
    int s = 0;
    memset(w->block, 0, sizeof w->block);
    for (uint32_t k = 0; k < n && first < n && s == 0; k++) {
        write_task(w, k);
        if (k >= first)
            s = copy_task(r, w, k, k > first, e);
        end_task(w, k);
        if (s == 0 && k >= first && cuts->short_of[at + k] && part_is_whole(w, k))
            cuts->renewed[at + k] = r->m->program.n_tasks - 1;
    }
    return s;
}

// Schedules of one core may have the same tasks.
static bool is_done(const struct renew *r, unsigned schedule, uint32_t node)
{
    const struct rknn_schedule *all = r->m->program.one;
    bool done = false;
    for (unsigned i = 0; i < schedule; i++)
        done =
            done || (all[i].n_cores && all[i].tasks[node].first == all[schedule].tasks[node].first);
    return done;
}

static int renew_schedule(struct renew *r, unsigned schedule, struct error *e)
{
    const struct rknn_schedule *s = &r->m->program.one[schedule];
    cleanup(free_p) struct walk *w = calloc(1, sizeof *w);
    int ret = 0;
    if (!w)
        return error_no_memory(e, "parts of nodes", sizeof *w);
    w->p = &r->m->program;
    for (uint32_t node = 0; node < r->m->file.n_nodes && s->n_cores == 1 && ret == 0; node++) {
        w->tasks = &s->tasks[node];
        if (w->tasks->n > 1 && r->m->steps[node] == OPEN_NPU &&
            open_cuts_of(&r->m->cuts, w->p, s)[node] && !is_done(r, schedule, node))
            ret = renew_node(r, w, e);
    }
    return ret;
}

// ---- inputs and outputs ----

// What changes a port's commands changes their copies, too. `patch`, `flip`: of each of the file's
// commands the port's, and one more; zeroed, and again behind it.
static int renew_port(const struct renew *r, struct open_port *port, uint32_t *patch,
                      uint32_t *flip, struct error *e)
{
    struct pool *pool = &r->m->pool;
    uint64_t n_patches = port->n_patches, n_flips = port->n_flips;
    uint64_t patches_room = n_patches, flips_room = n_flips;
    bool room = true;
    for (uint64_t i = 0; i < n_patches; i++)
        patch[port->patches[i].command] = (uint32_t)i + 1;
    for (uint64_t i = 0; i < n_flips; i++)
        flip[port->flips[i].command] = (uint32_t)i + 1;
    for (uint64_t i = 0; i < r->n_source && room && n_patches; i++) {
        uint64_t from = r->source[i], copy = r->n_file_commands + i;
        if (from != NOWHERE && patch[from] &&
            (room = pool_reserve(pool, port->patches, port->n_patches, patches_room,
                                 port->n_patches + 1))) {
            port->patches[port->n_patches] = port->patches[patch[from] - 1];
            port->patches[port->n_patches++].command = copy;
        }
        if (from != NOWHERE && flip[from] && room &&
            (room =
                 pool_reserve(pool, port->flips, port->n_flips, flips_room, port->n_flips + 1))) {
            port->flips[port->n_flips] = port->flips[flip[from] - 1];
            port->flips[port->n_flips++].command = copy;
        }
    }
    for (uint64_t i = 0; i < n_patches; i++)
        patch[port->patches[i].command] = 0;
    for (uint64_t i = 0; i < n_flips; i++)
        flip[port->flips[i].command] = 0;
    return room ? 0 : error_no_memory(e, "a tensor's addresses", port->n_patches);
}

static int renew_ports(const struct renew *r, struct error *e)
{
    struct npu_model *m = r->m;
    uint32_t n = m->info.n_inputs;
    cleanup(free_p) uint32_t *patch = calloc(r->n_file_commands + 1, sizeof *patch);
    cleanup(free_p) uint32_t *flip = calloc(r->n_file_commands + 1, sizeof *flip);
    int s = patch && flip ? 0 : error_no_memory(e, "parts of nodes", 8 * r->n_file_commands);
    for (uint32_t i = 0; i < n + m->info.n_outputs && s == 0; i++)
        s = renew_port(r, i < n ? &m->inputs[i] : &m->outputs[i - n], patch, flip, e);
    return s;
}

// ---- the whole ----

// Arrays have grown where they are not to stay.
static int keep_program(struct rknn_program *p, struct error *e)
{
    uint64_t *commands = pool_alloc(&p->pool, p->n_commands, sizeof *commands);
    struct rknn_patch *patches = pool_alloc(&p->pool, p->n_patches, sizeof *patches);
    struct rknn_program_task *tasks = pool_alloc(&p->pool, p->n_tasks, sizeof *tasks);
    if (!commands || !patches || !tasks)
        return error_no_memory(e, "parts of nodes", p->n_commands * sizeof *commands);
    p->commands = memcpy(commands, p->commands, p->n_commands * sizeof *commands);
    p->patches = memcpy(patches, p->patches, p->n_patches * sizeof *patches);
    p->tasks = memcpy(tasks, p->tasks, p->n_tasks * sizeof *tasks);
    return 0;
}

static int renew_all(struct renew *r, struct error *e)
{
    struct rknn_program *p = &r->m->program;
    int s = 0;
    for (uint64_t i = 0; i < p->n_patches; i++)
        r->patch_of[p->patches[i].command] = i + 1;
    for (unsigned i = 0; i < RKNN_MAX_CORES && s == 0; i++)
        s = renew_schedule(r, i, e);
    if (s == 0 && r->n_source)
        s = renew_ports(r, e);
    return s == 0 && r->n_source ? keep_program(p, e) : s;
}

int open_renew_tasks(struct npu_model *m, struct error *e)
{
    const struct rknn_program *p = &m->program;
    struct renew r = {.m = m,
                      .n_file_commands = p->n_commands,
                      .commands_room = p->n_commands,
                      .patches_room = p->n_patches,
                      .tasks_room = p->n_tasks};
    if (m->provider->ops->prepare) // whoever does that makes programs of its own
        return 0;
    m->cuts.renewed = pool_alloc(&m->pool, p->n_tasks, sizeof *m->cuts.renewed);
    cleanup(free_p) uint64_t *patch_of = r.patch_of = calloc(p->n_commands + 1, sizeof *patch_of);
    if (!m->cuts.renewed || !patch_of)
        return error_no_memory(e, "parts of nodes", p->n_commands * sizeof *patch_of);
    int s = renew_all(&r, e);
    pool_done(&r.pool);
    return s;
}
