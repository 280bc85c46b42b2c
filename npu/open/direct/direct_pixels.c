// Files of RK3588 bypass the converter in front of packed pixels. A driver of Mesa's has the same
// chip take 128 off there, for pictures of one channel: truncations of 14 bits and no other bit in
// CVT_CON0, factors of 2^14 and offsets of -128 in all four lanes, as files of other chips have it,
// and CVT_CON5 as RK3588's own operands of products that are converted. What is padded stays a
// number from -128 on.
//
// A task that leaves out these registers has them from the one two before, as the CNA has two
// groups of registers: so it is followed through each chain that none does behind one that is
// changed.
#include "npu/open/direct/direct_pixels.h"

#include "npu/model/rknn/regs/rknn_registers.h"

#define CNA          1u // of an enable word
#define BYPASSED     0xbu
#define MAX_CHANNELS 4

static const struct {
    enum rknn_register reg;
    uint32_t value;
} converter[] = {{CNA_CVT_CON0, 0x38e38e0},  {CNA_CVT_CON1, 0x4000ff80}, {CNA_CVT_CON2, 0x4000ff80},
                 {CNA_CVT_CON3, 0x4000ff80}, {CNA_CVT_CON4, 0x4000ff80}, {CNA_CVT_CON5, 0xffff}};
#define N_CONVERTER (sizeof converter / sizeof *converter)
#define ALL         ((1u << N_CONVERTER) - 1)

// Which of the converter's registers the task writes; *con0: the first one's value.
static unsigned writes_of(const struct npu_model *m, uint32_t task, uint32_t *con0)
{
    const struct rknn_program_task *t = &m->program.tasks[task];
    unsigned found = 0;
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        for (size_t k = 0; k < N_CONVERTER; k++)
            if ((m->program.commands[i] & 0xffff) == rknn_register_at(m->chip, converter[k].reg)) {
                found |= 1u << k;
                *con0 = k ? *con0 : rknn_command_value(m->program.commands[i]);
            }
    return found;
}

// Programs of RK3588 leave it to the driver, so that groups take turns.
static bool sets_pointer(const struct npu_model *m, uint32_t task)
{
    const struct rknn_program_task *t = &m->program.tasks[task];
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((m->program.commands[i] & 0xffff) == rknn_register_at(m->chip, CNA_S_POINTER))
            return true;
    return false;
}

// Every task that has an address of the input reads its pixels, and says how.
static bool all_say(const struct npu_model *m, const struct open_port *port, const bool *marked)
{
    bool say = true;
    for (uint64_t i = 0; i < port->n_patches; i++)
        say = say && (m->program.commands[port->patches[i].command] & 0xffff) ==
                         rknn_register_at(m->chip, CNA_FEATURE_BASE);
    for (uint32_t t = 0; t < m->program.n_tasks && say; t++) {
        uint32_t con0 = 0;
        say = !marked[t] || ((m->program.tasks[t].enable & CNA) && writes_of(m, t, &con0) == ALL &&
                             con0 == BYPASSED);
    }
    return say;
}

// One core's tasks, of which those that are marked change what a group holds.
static bool chain_notices(const struct npu_model *m, const struct rknn_schedule *s, uint32_t core,
                          const bool *marked)
{
    bool changed[2][N_CONVERTER] = {{0}}, notices = false;
    unsigned group = 0;
    for (uint32_t node = 0; node < m->file.n_nodes && !notices; node++) {
        const struct rknn_range *r = &s->tasks[(size_t)node * s->n_cores + core];
        for (uint32_t t = r->first; t < r->first + r->n && !notices; t++) {
            uint32_t con0;
            unsigned writes = writes_of(m, t, &con0);
            bool starts = m->program.tasks[t].enable & CNA;
            notices = sets_pointer(m, t) || (writes && !starts);
            for (size_t k = 0; k < N_CONVERTER; k++) {
                if (writes >> k & 1)
                    changed[group][k] = marked[t];
                notices = notices || (starts && !marked[t] && changed[group][k]);
            }
            group ^= starts;
        }
    }
    return notices;
}

static bool others_notice(const struct npu_model *m, const bool *marked)
{
    const struct rknn_program *p = &m->program;
    bool notice = false;
    for (unsigned i = 0; i < RKNN_MAX_CORES; i++)
        for (uint32_t core = 0; core < p->one[i].n_cores && !notice; core++)
            notice = chain_notices(m, &p->one[i], core, marked);
    for (unsigned i = 0; i < RKNN_MAX_CORES - 1; i++)
        for (uint32_t core = 0; core < p->several[i].n_cores && !notice; core++)
            notice = chain_notices(m, &p->several[i], core, marked);
    return notice;
}

static void take_flips(const struct npu_model *m, struct open_port *port, const bool *marked)
{
    for (uint32_t t = 0; t < m->program.n_tasks; t++) {
        const struct rknn_program_task *task = &m->program.tasks[t];
        for (uint64_t i = task->first; i < task->first + task->n_commands && marked[t]; i++)
            for (size_t k = 0; k < N_CONVERTER; k++)
                if ((m->program.commands[i] & 0xffff) ==
                    rknn_register_at(m->chip, converter[k].reg))
                    port->flips[port->n_flips++] =
                        (struct open_port_flip){.command = i, .value = converter[k].value};
    }
}

int direct_pixels_find(struct npu_model *m, struct open_port *port, const bool *marked,
                       struct error *e)
{
    const struct rknn_memory_layout *l = &port->layout;
    uint64_t n = 0;
    if (m->chip->generation != CHIP_GEN_RK3588 || l->element != 1 || l->flipped ||
        l->block != l->c || l->c > MAX_CHANNELS || !all_say(m, port, marked) ||
        others_notice(m, marked))
        return 0;
    for (uint32_t t = 0; t < m->program.n_tasks; t++)
        n += marked[t] ? m->program.tasks[t].n_commands : 0;
    port->flips = pool_alloc(&m->pool, n + 1, sizeof *port->flips);
    if (!port->flips)
        return error_no_memory(e, "an input's converter", n * sizeof *port->flips);
    take_flips(m, port, marked);
    return 0;
}
