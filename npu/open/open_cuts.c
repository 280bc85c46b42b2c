// A short program leaves out registers that the one two before it has written, as each block has
// two groups of registers which it uses in turn. So a chain can begin at a task when whatever was
// written before is written anew, for each block by the first two tasks that start it. Tables are
// no registers: they have to be loaded before they are used. Nor is the buffer, of which a task can
// use again what the one before has loaded. What tasks of nodes that a CPU computes would have
// written is known, too: programs behind them count on it.
//
// Several cores are cut in front of nodes alone, where they all begin anew.
#include "npu/open/open_cuts.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/regs/rknn_registers.h"

#define N_BLOCKS                                                                                   \
    7 // bit i of an enable word starts the block whose registers begin at 0x1000 * (i + 1)
#define WORDS        (0x1000 / 4 / 64)
#define POINTER      0x004
#define TABLES       0x4100 // to TABLES_END: what tables hold, and how they are read
#define TABLES_END   0x41a0
#define TABLE_BYPASS (1u << 7)  // of EW_CFG
#define TABLE_WRITE  (1u << 17) // of LUT_ACCESS_CFG
#define BUFFER_AGAIN 0x3000u    // of CBUF_CON0: weights, or pixels, of the task before
#define CNA          1u         // of an enable word: what fills the buffer
#define ROWS         0xffffu    // of registers of sizes
#define PACKED       0x8000u    // of CONV_CON1: pixels of an input, whose rows are not counted so
#define IN_TURN      0x2u       // of S_POINTER: groups take turns

struct written {
    uint64_t bits[N_BLOCKS][WORDS];
};

// One core's tasks.
struct chain {
    const struct rknn_program *p;
    const bool *on_cpu; // of each node: its tasks are not run; NULL: all are
    uint32_t *tasks;
    uint32_t n;
    bool *needs; // from this task on a table or the buffer is used before it is loaded
    bool *rows;  // the task fetches fewer rows than it has: others are in the buffer
    uint16_t use, load, buffer;              // the registers that say so
    uint16_t pointer, kind, height, fetched; // likewise, of rows; fetched 0: the chip has it not
};

static bool is_run(const struct chain *c, uint32_t k)
{
    return !c->on_cpu || !c->on_cpu[c->p->tasks[c->tasks[k]].node];
}

static void written_add(struct written *w, const struct rknn_program *p, uint32_t task)
{
    const struct rknn_program_task *t = &p->tasks[task];
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
        uint32_t at = p->commands[i] & 0xffff, block = at / 0x1000, in = at % 0x1000;
        if (block < 1 || block > N_BLOCKS || in <= POINTER || (at >= TABLES && at < TABLES_END))
            continue;
        w->bits[block - 1][in / 4 / 64] |= UINT64_C(1) << in / 4 % 64;
    }
}

static bool covers(const struct written *w, const struct written *known, unsigned block)
{
    uint64_t missing = 0;
    for (unsigned i = 0; i < WORDS; i++)
        missing |= known->bits[block][i] & ~w->bits[block][i];
    return missing == 0;
}

// Whether the first two tasks of each block write what is known.
static bool registers_anew(const struct chain *c, uint32_t from, const struct written *known)
{
    unsigned n_seen[N_BLOCKS] = {0}, open = N_BLOCKS;
    for (uint32_t k = from; k < c->n && open; k++) {
        struct written w = {0};
        if (!is_run(c, k))
            continue;
        written_add(&w, c->p, c->tasks[k]);
        for (unsigned b = 0; b < N_BLOCKS; b++) {
            if (!(c->p->tasks[c->tasks[k]].enable >> b & 1) || n_seen[b] == 2)
                continue;
            if (!covers(&w, known, b))
                return false;
            open -= ++n_seen[b] == 2;
        }
    }
    return true;
}

// What a task does with tables and the buffer.
struct held {
    bool uses_table, loads_table, uses_buffer, fills_buffer;
};

static struct held held_by(const struct chain *c, uint32_t k)
{
    const struct rknn_program_task *t = &c->p->tasks[c->tasks[k]];
    struct held h = {.fills_buffer = t->enable & CNA};
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
        uint32_t at = c->p->commands[i] & 0xffff, value = rknn_command_value(c->p->commands[i]);
        h.uses_table = h.uses_table || (at == c->use && !(value & TABLE_BYPASS));
        h.loads_table = h.loads_table || (at == c->load && value & TABLE_WRITE);
        if (at == c->buffer)
            h.uses_buffer = value & BUFFER_AGAIN;
    }
    return h;
}

// RK3562, RK3576 and RV1126B. Which group a task sees is followed, as it may say nothing new.
static void find_rows(struct chain *c)
{
    struct {
        uint32_t kind, height, fetched;
    } group[2] = {{0}};
    unsigned at = 0;
    bool in_turn = true;
    for (uint32_t k = 0; k < c->n && c->fetched; k++) {
        const struct rknn_program_task *t = &c->p->tasks[c->tasks[k]];
        if (!is_run(c, k))
            continue;
        for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
            uint32_t reg = c->p->commands[i] & 0xffff,
                     value = rknn_command_value(c->p->commands[i]);
            if (reg == c->pointer) {
                in_turn = value & IN_TURN;
                at = in_turn ? at : 0;
            }
            if (reg == c->kind)
                group[at].kind = value;
            if (reg == c->height)
                group[at].height = value & ROWS;
            if (reg == c->fetched)
                group[at].fetched = value & ROWS;
        }
        c->rows[k] =
            t->enable & CNA && !(group[at].kind & PACKED) && group[at].fetched < group[at].height;
        at ^= in_turn && t->enable & CNA;
    }
}

static void find_needs(struct chain *c)
{
    bool table = false, buffer = false;
    for (uint32_t k = c->n; k-- > 0;) {
        struct held h = is_run(c, k) ? held_by(c, k) : (struct held){0};
        table = !h.loads_table && (h.uses_table || table);
        buffer = h.fills_buffer ? h.uses_buffer || c->rows[k] : buffer;
        c->needs[k] = table || buffer;
    }
}

// Whether a node's tasks might be cut in front of the k-th: the one before says when it is done,
// and has loaded none of its tables, of which there may be two.
static bool inside_node(const struct chain *c, uint32_t k)
{
    return c->p->tasks[c->tasks[k - 1]].interrupts && !held_by(c, k - 1).loads_table;
}

// Takes back the cuts that this core's chain does not allow. `inside`: those between a node's
// tasks, too, or NULL.
static void cuts_of_chain(const struct chain *c, bool *cuts, struct open_cuts *inside)
{
    struct written known = {0};
    for (uint32_t k = 0; k < c->n; k++) {
        uint32_t node = c->p->tasks[c->tasks[k]].node;
        bool begins = k && node != c->p->tasks[c->tasks[k - 1]].node,
             wanted = begins ? cuts[node] : k && inside && inside_node(c, k);
        bool alone = wanted && !c->needs[k], may = alone && registers_anew(c, k, &known);
        if (begins)
            cuts[node] = may;
        else if (inside) {
            inside->tasks[c->tasks[k]] = inside->tasks[c->tasks[k]] && may;
            inside->short_of[c->tasks[k]] = inside->short_of[c->tasks[k]] && alone;
        }
        written_add(&known, c->p, c->tasks[k]);
    }
}

// RK3576 and RK3562 have it elsewhere.
static uint16_t buffer_register(const struct chip *chip)
{
    uint32_t plan = rknn_register_at(chip, CNA_CORE_PLAN);
    return (uint16_t)(plan ? plan : rknn_register_at(chip, CNA_CBUF_CON0));
}

static uint16_t fetched_register(const struct chip *chip)
{
    bool has = rknn_register_at(chip, CNA_CORE_PLAN);
    return has ? (uint16_t)rknn_register_at(chip, CNA_FC_DATA_SIZE0) : 0;
}

static int cuts_of_schedule(const struct rknn_program *p, const struct chip *chip,
                            const bool *on_cpu, const struct rknn_schedule *s, struct pool *pool,
                            struct open_cuts *inside, bool **ret, struct error *e)
{
    uint32_t n_nodes = p->file->n_nodes;
    cleanup(free_p) uint32_t *tasks = calloc((size_t)p->n_tasks + 1, sizeof *tasks);
    cleanup(free_p) bool *needs = calloc((size_t)p->n_tasks + 1, sizeof *needs);
    cleanup(free_p) bool *rows = calloc((size_t)p->n_tasks + 1, sizeof *rows);
    bool *cuts = pool_alloc(pool, n_nodes, sizeof *cuts);
    if (!tasks || !needs || !rows || !cuts)
        return error_no_memory(e, "slices", p->n_tasks * sizeof *tasks);
    memset(cuts, true, n_nodes);
    for (uint32_t core = 0; core < s->n_cores; core++) {
        uint16_t fetched = fetched_register(chip);
        memset(rows, 0, p->n_tasks * sizeof *rows);
        struct chain c = {.p = p,
                          .on_cpu = on_cpu,
                          .tasks = tasks,
                          .needs = needs,
                          .rows = rows,
                          .pointer = (uint16_t)rknn_register_at(chip, CNA_S_POINTER),
                          .kind = (uint16_t)rknn_register_at(chip, CNA_CONV_CON1),
                          .height = (uint16_t)rknn_register_at(chip, CNA_DATA_SIZE0),
                          .fetched = fetched,
                          .use = (uint16_t)rknn_register_at(chip, DPU_EW_CFG),
                          .load = (uint16_t)rknn_register_at(chip, DPU_LUT_ACCESS_CFG),
                          .buffer = buffer_register(chip)};
        for (uint32_t node = 0; node < n_nodes; node++) {
            const struct rknn_range *r = &s->tasks[(size_t)node * s->n_cores + core];
            for (uint32_t i = 0; i < r->n && c.n < p->n_tasks; i++)
                tasks[c.n++] = r->first + i;
        }
        find_rows(&c);
        find_needs(&c);
        cuts_of_chain(&c, cuts, s->n_cores == 1 ? inside : NULL);
    }
    *ret = cuts;
    return 0;
}

int open_cuts_find(const struct rknn_program *p, const struct chip *chip, const bool *on_cpu,
                   struct pool *pool, struct open_cuts *ret, struct error *e)
{
    int s = 0;
    *ret = (struct open_cuts){.tasks = pool_alloc(pool, p->n_tasks, sizeof *ret->tasks),
                              .short_of = pool_alloc(pool, p->n_tasks, sizeof *ret->short_of)};
    if (!ret->tasks || !ret->short_of)
        return error_no_memory(e, "slices", p->n_tasks);
    memset(ret->tasks, true, p->n_tasks);
    memset(ret->short_of, true, p->n_tasks);
    for (unsigned i = 0; i < RKNN_MAX_CORES && s == 0; i++)
        s = cuts_of_schedule(p, chip, on_cpu, &p->one[i], pool, ret, &ret->one[i], e);
    for (unsigned i = 0; i < RKNN_MAX_CORES - 1 && s == 0; i++)
        s = cuts_of_schedule(p, chip, on_cpu, &p->several[i], pool, NULL, &ret->several[i], e);
    for (uint32_t i = 0; i < p->n_tasks; i++)
        ret->short_of[i] = ret->short_of[i] && !ret->tasks[i];
    return s;
}

// Whether a run may begin at the node, on whatever cores.
// Schedules that the file does not have allow all: they have no tasks that need anything.
static bool begins(const struct open_cuts *cuts, uint32_t node)
{
    bool all = true;
    for (unsigned i = 0; i < RKNN_MAX_CORES; i++)
        all = all && cuts->one[i][node];
    for (unsigned i = 0; i < RKNN_MAX_CORES - 1; i++)
        all = all && cuts->several[i][node];
    return all;
}

// Behind a node of the CPU's, the first node with tasks that may not begin a run; n_nodes: none.
static uint32_t find_needing(const struct rknn_program *p, const bool *on_cpu,
                             const struct open_cuts *cuts)
{
    bool parted = false;
    for (uint32_t i = 0; i < p->file->n_nodes; i++) {
        if (on_cpu[i])
            parted = true;
        else if (p->one[0].tasks[(size_t)i * p->one[0].n_cores].n) {
            if (parted && !begins(cuts, i))
                return i;
            parted = false;
        }
    }
    return p->file->n_nodes;
}

int open_cuts_settle(const struct rknn_program *p, const struct chip *chip, bool *on_cpu,
                     struct pool *pool, struct open_cuts *ret, struct error *e)
{
    for (;;) {
        int s = open_cuts_find(p, chip, on_cpu, pool, ret, e);
        uint32_t node = s < 0 ? p->file->n_nodes : find_needing(p, on_cpu, ret);
        if (node == p->file->n_nodes)
            return s;
        on_cpu[node] = true;
    }
}

const bool *open_cuts_of(const struct open_cuts *cuts, const struct rknn_program *p,
                         const struct rknn_schedule *schedule)
{
    if (schedule >= p->one && schedule < p->one + RKNN_MAX_CORES)
        return cuts->one[schedule - p->one];
    return cuts->several[schedule - p->several];
}
