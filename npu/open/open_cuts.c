// A short program leaves out registers that the one two before it has written, as each block has
// two groups of registers which it uses in turn. So a chain can begin at a task when whatever was
// written before is written anew, for each block by the first two tasks that start it. Tables are
// no registers: they have to be loaded before they are used. What tasks of nodes that a CPU
// computes would have written is known, too: programs behind them count on it.
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

struct written {
    uint64_t bits[N_BLOCKS][WORDS];
};

// One core's tasks.
struct chain {
    const struct rknn_program *p;
    const bool *on_cpu; // of each node: its tasks are not run; NULL: all are
    uint32_t *tasks;
    uint32_t n;
    bool *needs_table;  // [n + 1]: from this task on one is used before one is loaded
    uint16_t use, load; // the registers that say so
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

static void find_tables(struct chain *c)
{
    for (uint32_t k = c->n; k-- > 0;) {
        const struct rknn_program_task *t = &c->p->tasks[c->tasks[k]];
        bool uses = false, loads = false;
        if (!is_run(c, k)) {
            c->needs_table[k] = c->needs_table[k + 1];
            continue;
        }
        for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
            uint64_t command = c->p->commands[i];
            uses = uses ||
                   ((command & 0xffff) == c->use && !(rknn_command_value(command) & TABLE_BYPASS));
            loads = loads ||
                    ((command & 0xffff) == c->load && (rknn_command_value(command) & TABLE_WRITE));
        }
        c->needs_table[k] = loads ? false : uses ? true : c->needs_table[k + 1];
    }
}

// Takes back the cuts that this core's chain does not allow.
static void cuts_of_chain(const struct chain *c, bool *cuts)
{
    struct written known = {0};
    for (uint32_t k = 0; k < c->n; k++) {
        uint32_t node = c->p->tasks[c->tasks[k]].node;
        if (k && node != c->p->tasks[c->tasks[k - 1]].node && cuts[node])
            cuts[node] = !c->needs_table[k] && registers_anew(c, k, &known);
        written_add(&known, c->p, c->tasks[k]);
    }
}

static int cuts_of_schedule(const struct rknn_program *p, const struct chip *chip,
                            const bool *on_cpu, const struct rknn_schedule *s, struct pool *pool,
                            bool **ret, struct error *e)
{
    uint32_t n_nodes = p->file->n_nodes;
    cleanup(free_p) uint32_t *tasks = calloc((size_t)p->n_tasks + 1, sizeof *tasks);
    cleanup(free_p) bool *needs = calloc((size_t)p->n_tasks + 1, sizeof *needs);
    bool *cuts = pool_alloc(pool, n_nodes, sizeof *cuts);
    if (!tasks || !needs || !cuts)
        return error_no_memory(e, "slices", p->n_tasks * sizeof *tasks);
    memset(cuts, true, n_nodes);
    for (uint32_t core = 0; core < s->n_cores; core++) {
        struct chain c = {.p = p,
                          .on_cpu = on_cpu,
                          .tasks = tasks,
                          .needs_table = needs,
                          .use = (uint16_t)rknn_register_at(chip, DPU_EW_CFG),
                          .load = (uint16_t)rknn_register_at(chip, DPU_LUT_ACCESS_CFG)};
        for (uint32_t node = 0; node < n_nodes; node++) {
            const struct rknn_range *r = &s->tasks[(size_t)node * s->n_cores + core];
            for (uint32_t i = 0; i < r->n && c.n < p->n_tasks; i++)
                tasks[c.n++] = r->first + i;
        }
        needs[c.n] = false;
        find_tables(&c);
        cuts_of_chain(&c, cuts);
    }
    *ret = cuts;
    return 0;
}

int open_cuts_find(const struct rknn_program *p, const struct chip *chip, const bool *on_cpu,
                   struct pool *pool, struct open_cuts *ret, struct error *e)
{
    int s = 0;
    for (unsigned i = 0; i < RKNN_MAX_CORES && s == 0; i++)
        s = cuts_of_schedule(p, chip, on_cpu, &p->one[i], pool, &ret->one[i], e);
    for (unsigned i = 0; i < RKNN_MAX_CORES - 1 && s == 0; i++)
        s = cuts_of_schedule(p, chip, on_cpu, &p->several[i], pool, &ret->several[i], e);
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
