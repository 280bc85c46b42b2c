// The PC: fetches programs, writes registers, starts blocks.
//
// Each block has two groups of registers. A program writes the group that the block's pointer
// selects, and the block works with the one that its executer selects; both flip when the block has
// worked, if S_POINTER says so (0xe; 0x30 clears them and says that they stay). So a short program
// is a change to the one two before it. Registers keep their values between tasks and runs, and all
// cores have registers and tables of their own.
//
// Tests: test_emulator; fuzz_emulator runs programs of any bits.
#include "npu/emu/emu_npu.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

// The bits of a task's enable word, and which block each starts.
enum { CNA = 1 << 0, CMAC = 1 << 1, CORE = 1 << 2, DPU = 1 << 3, DPU_RDMA = 1 << 4 };
enum { PPU = 1 << 5, PPU_RDMA = 1 << 6, ALL_BLOCKS = 0x7f };
static const uint8_t enables[EMU_N_BLOCKS] = {0, CNA, CMAC, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, 0};
static const uint16_t targets[EMU_N_BLOCKS] = {0x100,  0x200,  0x400,  0x800, 0x1000,
                                               0x2000, 0x4000, 0x8000, 0x400};

#define TARGET_BARRIER 0x41
#define TARGET_ENABLE  0x81 // register 8 then holds the blocks to start
#define S_POINTER      4
#define MULTI_CORE     (1u << 24) // of an enable word: the task shares its work with other cores
#define LUT_WRITE      (1u << 17) // of LUT_ACCESS_CFG
#define BUFFER_CON0    0x1040     // what is used again of the buffer in front of the multipliers
#define BUFFER_LATER   0x1038     // on RK3562, RK3576 and RV1126B
#define BUFFER_AGAIN   0x3000u

#define DEFAULT_LIMIT ((uint64_t)1 << 40)

// Bits of S_POINTER. The mode and the core that it is for change nothing here.
enum { POINTER = 1 << 0, POINTER_FLIPS = 1 << 1, EXECUTER_FLIPS = 1 << 2, POINTER_MODE = 1 << 3 };
enum { POINTER_CLEAR = 1 << 4, EXECUTER_CLEAR = 1 << 5, POINTER_BITS = 0x3f };
#define POINTER_CORE 0xf0000000u

struct block {
    uint32_t group[2][EMU_BLOCK_REGS];
    bool written[EMU_BLOCK_REGS]; // in either
    unsigned pointer, executer;
    bool pointer_flips, executer_flips;
};

struct core {
    struct block block[EMU_N_BLOCKS];
    int16_t lut[2][EMU_LUT_POINTS];
    unsigned lut_table, lut_at;
    uint32_t base, amount, enable, mask, raw, task_con, dma_base;
    uint32_t tasks_started, tasks_done;
    uint32_t raises; // interrupts of the task that works
    bool started, loaded_lut;
    bool buffer_lost; // others have been there since the last convolution
};

struct emu_npu {
    const struct emu_chip *chip;
    struct emu_memory *memory;
    uint64_t limit;
    uint8_t arithmetic[CHIP_N_SWITCHES];
    struct core core[EMU_CORES];
};

int emu_npu_new(const char *chip, struct emu_memory *memory, struct emu_npu **ret, struct error *e)
{
    const struct emu_chip *known = emu_chip_find(chip);
    if (!known || !chip_find(chip))
        return error_set(e, STATUS_PARAM_INVALID, "the emulator does not know the chip \"%s\"",
                         chip);
    struct emu_npu *npu = calloc(1, sizeof *npu);
    if (!npu)
        return error_no_memory(e, "an emulated NPU", sizeof *npu);
    npu->chip = known;
    npu->memory = memory;
    npu->limit = DEFAULT_LIMIT;
    for (unsigned i = 0; i < CHIP_N_SWITCHES; i++)
        npu->arithmetic[i] = (uint8_t)chip_switch_taken(chip_find(chip), (enum chip_switch)i);
    *ret = npu;
    return 0;
}

void emu_npu_choose(struct emu_npu *npu, enum chip_switch s, unsigned choice)
{
    npu->arithmetic[s] = (uint8_t)choice;
}

void emu_npu_limit(struct emu_npu *npu, uint64_t products)
{
    npu->limit = products;
}

void emu_npu_free(struct emu_npu *npu)
{
    free(npu);
}

void emu_npu_reset(struct emu_npu *npu, unsigned core)
{
    npu->core[core] = (struct core){0};
}

void emu_npu_disturb(struct emu_npu *npu, unsigned core)
{
    struct core *c = &npu->core[core];
    for (unsigned i = 1; i < EMU_N_BLOCKS; i++) {
        struct block *b = &c->block[i];
        for (unsigned at = 0; at < EMU_BLOCK_REGS; at++)
            for (unsigned group = 0; group < 2 && b->written[at]; group++)
                b->group[group][at] ^=
                    emu_register_known_bits(npu->chip->generation, i << 12 | at * 4);
        b->pointer ^= 1;
        b->executer = b->pointer;
        b->pointer_flips = b->executer_flips = false;
    }
    for (unsigned table = 0; table < 2; table++)
        for (unsigned at = 0; at < EMU_LUT_POINTS; at++)
            c->lut[table][at] = (int16_t)~c->lut[table][at];
    c->buffer_lost = true;
}

uint32_t emu_npu_task_bits(const struct emu_npu *npu)
{
    return npu->chip->task_bits;
}

uint32_t emu_npu_tasks_done(const struct emu_npu *npu, unsigned core)
{
    return npu->core[core].tasks_done;
}

// Words that a program of `amount` has.
static uint32_t words_of(const struct emu_npu *npu, uint32_t amount)
{
    return ((amount & 0xffff) + 1) * npu->chip->fetch_scale;
}

uint32_t emu_npu_amount(const struct emu_npu *npu, uint32_t n)
{
    uint32_t scale = npu->chip->fetch_scale;
    return (n + EMU_TRAILER_WORDS + scale - 1) / scale - 1;
}

// ---- registers ----

// The tables are loaded through a window: LUT_ACCESS_CFG says which table and from where.
static void write_table(struct emu_npu *npu, struct core *core, uint32_t offset, uint32_t value)
{
    if (offset == emu_register_at(npu->chip->generation, EMU_LUT_ACCESS_CFG)) {
        core->lut_table = value & LUT_WRITE ? emu_field(value, 16, 16) : 2;
        core->lut_at = emu_field(value, 9, 0);
    } else if (offset == emu_register_at(npu->chip->generation, EMU_LUT_ACCESS_DATA) &&
               core->lut_table < 2 && core->lut_at < EMU_LUT_POINTS) {
        core->lut[core->lut_table][core->lut_at++] = (int16_t)value;
        core->loaded_lut = true;
    }
}

// Whoever writes POINTER without letting it flip chooses the group.
static void write_pointer(struct block *b, uint32_t value)
{
    b->pointer_flips = value & POINTER_FLIPS;
    b->executer_flips = value & EXECUTER_FLIPS;
    if (value & POINTER_CLEAR)
        b->pointer = 0;
    else if (!b->pointer_flips)
        b->pointer = value & POINTER;
    if (value & EXECUTER_CLEAR)
        b->executer = 0;
}

static void write_block(struct emu_npu *npu, struct core *core, uint32_t offset, uint32_t value)
{
    struct block *b = &core->block[offset >> 12];
    uint32_t at = offset & 0xfff;
    if (at == S_POINTER && offset >> 12 != 8) {
        write_pointer(b, value);
        return;
    }
    b->group[b->pointer][at / 4] = value;
    b->written[at / 4] = true;
    write_table(npu, core, offset, value);
}

void emu_npu_write(struct emu_npu *npu, unsigned core, uint32_t offset, uint32_t value)
{
    struct core *c = &npu->core[core];
    if (offset >> 12 && offset >> 12 < EMU_N_BLOCKS) {
        write_block(npu, c, offset, value);
        return;
    }
    switch (offset) {
    case EMU_PC_OPERATION_ENABLE:
        c->started = c->started || (value & 1);
        break;
    case EMU_PC_BASE_ADDRESS:
        c->base = value & ~0xfu;
        break;
    case EMU_PC_REGISTER_AMOUNTS:
        c->amount = value;
        break;
    case EMU_PC_INTERRUPT_MASK:
        c->mask = value;
        break;
    case EMU_PC_INTERRUPT_CLEAR:
        c->raw &= ~value;
        break;
    case EMU_PC_TASK_CON:
        c->task_con = value;
        break;
    case EMU_PC_TASK_DMA_BASE_ADDR:
        c->dma_base = value & ~0xfu;
        break;
    default:
        break;
    }
}

// Both counts are modulo the number of tasks that TASK_CON says.
static uint32_t read_task_status(const struct emu_npu *npu, const struct core *core)
{
    uint32_t bits = npu->chip->task_bits, n = emu_field(core->task_con, bits - 1, 0);
    return n ? core->tasks_done % n << bits | core->tasks_started % n : 0;
}

uint32_t emu_npu_read(const struct emu_npu *npu, unsigned core, uint32_t offset)
{
    const struct core *c = &npu->core[core];
    if (offset >> 12 && offset >> 12 < EMU_N_BLOCKS) {
        const struct block *b = &c->block[offset >> 12];
        return (offset & 0xfff) == S_POINTER ? b->pointer | b->executer << 16
                                             : b->group[b->pointer][(offset & 0xfff) / 4];
    }
    if (offset == npu->chip->task_status)
        return read_task_status(npu, c);
    switch (offset) {
    case EMU_PC_BASE_ADDRESS:
        return c->base;
    case EMU_PC_REGISTER_AMOUNTS:
        return c->amount;
    case EMU_PC_INTERRUPT_MASK:
        return c->mask;
    case EMU_PC_INTERRUPT_STATUS:
        return c->raw & c->mask;
    case EMU_PC_INTERRUPT_RAW_STATUS:
        return c->raw;
    case EMU_PC_TASK_CON:
        return c->task_con;
    case EMU_PC_TASK_DMA_BASE_ADDR:
        return c->dma_base;
    default:
        return 0;
    }
}

// ---- tasks ----

static bool belongs_to(uint32_t offset, uint32_t target)
{
    uint32_t block = offset >> 12;
    return block < EMU_N_BLOCKS && (target == targets[block] || target == targets[block] + 1u);
}

// One word; 1: it is the last of its program, and core->enable says what is to work.
static int take_word(struct emu_npu *npu, struct core *core, uint64_t word, struct error *e)
{
    uint32_t target = (uint32_t)(word >> 48), value = (uint32_t)(word >> 16);
    uint32_t offset = word & 0xffff;
    if (!word || (target == TARGET_BARRIER && !value))
        return 0;
    if (target == TARGET_ENABLE && offset == EMU_PC_OPERATION_ENABLE) {
        core->enable = value;
        return 1;
    }
    if ((offset & 0xfff) == S_POINTER && offset >> 12 != 8 &&
        value & ~((uint32_t)POINTER_BITS | POINTER_CORE))
        return error_set(e, STATUS_PARAM_INVALID,
                         "the command %#018" PRIx64 " sets bits of S_POINTER that are not known",
                         word);
    if (offset % 4 || !belongs_to(offset, target) ||
        (offset >> 12 == 0 && offset != EMU_PC_BASE_ADDRESS && offset != EMU_PC_REGISTER_AMOUNTS))
        return error_set(e, STATUS_PARAM_INVALID,
                         "the command %#018" PRIx64 " is for no unit that is known", word);
    emu_npu_write(npu, (unsigned)(core - npu->core), offset, value);
    return 0;
}

// Reads the program that the PC stands at, and writes what it sets.
static int fetch_program(struct emu_npu *npu, struct core *core, struct error *e)
{
    uint32_t n = words_of(npu, core->amount);
    uint64_t at = (uint64_t)core->dma_base + core->base;
    core->base = core->amount = 0;
    core->loaded_lut = false;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *word = emu_memory_at(npu->memory, at + 8 * (uint64_t)i, 8, e);
        int r = word ? take_word(npu, core, read_le64(word), e) : STATUS_DEVICE_UNAVAILABLE;
        if (r < 0)
            return error_prefix(e, "word %u of the program", i);
        if (r > 0)
            return 0;
    }
    return error_set(e, STATUS_TIMEOUT,
                     "a program of %u words starts no block: the chip would wait for ever", n);
}

// The registers that the enabled blocks see; their pointers go on.
static int select_groups(struct emu_npu *npu, struct core *core, struct emu_unit *u,
                         struct error *e)
{
    *u = (struct emu_unit){.chip = npu->chip,
                           .memory = npu->memory,
                           .limit = npu->limit,
                           .arithmetic = npu->arithmetic,
                           .lut = (const int16_t(*)[EMU_LUT_POINTS])core->lut};
    for (unsigned i = 1; i < EMU_N_BLOCKS; i++) {
        struct block *b = &core->block[i];
        if (!(enables[i] & core->enable))
            continue;
        if (b->pointer != b->executer)
            return error_set(e, STATUS_PARAM_INVALID,
                             "registers at %#x: group %u was written, and group %u would work",
                             i << 12, b->pointer, b->executer);
        u->block[i] = b->group[b->executer];
        uint32_t pair = enables[i] == DPU   ? EMU_INTERRUPT_DPU
                        : enables[i] == PPU ? EMU_INTERRUPT_PPU
                                            : 0;
        core->raises |= b->executer ? pair & pair << 1 : pair & pair >> 1;
        b->pointer ^= b->pointer_flips;
        b->executer ^= b->executer_flips;
    }
    return 0;
}

static int refuse_mixed(const struct emu_conv *conv, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "a core of %s before a DPU of %s",
                     conv->real ? "fp16" : "int8", conv->real ? "int8" : "fp16");
}

// How the chip rounds where its registers do not say.
static void choose_rounding(const struct emu_unit *u, struct emu_dpu *d)
{
    const uint8_t *a = u->arithmetic;
    d->offset_behind = a[CHIP_OUT_ZP] == CHIP_OUT_ZP_BEHIND;
    d->sum_rounding = a[CHIP_SUM_SHIFT];
    d->ew.rounding = a[CHIP_EW_SHIFT];
    d->bn.rounding = d->ew.op == EMU_EW_LUT ? a[CHIP_LUT_IN] : CHIP_SHIFT_EVEN;
    d->counted = d->from_core && d->maxima && a[CHIP_CORE_MAXIMA] == CHIP_CORE_MAXIMA_FIRST
                     ? d->maxima / 2
                     : 0;
    d->bn.adds_last = d->bn.adds_last && a[CHIP_BN_ORDER] == CHIP_BN_MULTIPLIES_FIRST;
    for (int i = 0; i < 2; i++) {
        d->lut[i].line = a[CHIP_LUT_LINE];
        d->lut[i].beyond = a[CHIP_LUT_SLOPE];
    }
}

static int run_dpu(const struct emu_unit *u, bool from_core, struct error *e)
{
    struct emu_conv conv;
    struct emu_sums sums = {0};
    struct emu_dpu dpu = {.from_core = from_core};
    int r = from_core ? u->chip->conv(u, &conv, e) : 0;
    conv.zeros_between = u->arithmetic[CHIP_DECONV_PAD] == CHIP_DECONV_ZERO;
    if (r == 0 && from_core && emu_conv_work(&conv) > u->limit)
        r = error_set(e, STATUS_TIMEOUT, "a convolution of more than %" PRIu64 " products",
                      u->limit);
    if (r == 0 && from_core)
        r = conv.real ? emu_conv_run_real(&conv, u->memory, &sums, e)
                      : emu_conv_run(&conv, u->memory, &sums, e);
    if (r == 0)
        r = u->chip->dpu(u, from_core, &dpu, e);
    choose_rounding(u, &dpu);
    if (r == 0)
        r = from_core && conv.real != dpu.real ? refuse_mixed(&conv, e)
            : dpu.real                         ? emu_dpu_run_real(&dpu, u->memory, &sums, e)
                                               : emu_dpu_run(&dpu, u->memory, &sums, e);
    emu_dpu_done(&dpu);
    emu_sums_done(&sums);
    return r;
}

// Weights, pixels, or rows of pixels that the task before has left in the buffer. The emulator
// reads all from memory.
static int refuse_lost(const struct emu_npu *npu, const struct emu_unit *u, struct error *e)
{
    enum emu_generation g = npu->chip->generation;
    bool later = g == EMU_RK3562 || g == EMU_RK3576;
    uint32_t at = later ? BUFFER_LATER : BUFFER_CON0;
    if (u->block[1][at % 0x1000 / 4] & BUFFER_AGAIN)
        return error_set(e, STATUS_PARAM_INVALID,
                         "it uses again what was in the buffer, and another program was there");
    if (later && !emu_get_field(u, EMU_CONV_CON1, 15, 15) && // packed pixels have it otherwise
        emu_get_field(u, EMU_DMA_SIZE, 15, 0) < emu_get_field(u, EMU_DATA_SIZE0, 15, 0))
        return emu_refuse(u, EMU_DMA_SIZE, "rows were in the buffer, and another program was there",
                          e);
    return 0;
}

static int run_blocks(struct emu_npu *npu, struct core *core, bool work, struct error *e)
{
    struct emu_unit u;
    core->raises = 0;
    core->enable &= ~MULTI_CORE;
    if (core->enable & ~(uint32_t)ALL_BLOCKS)
        return error_set(e, STATUS_PARAM_INVALID, "blocks %#x are not known", core->enable);
    int r = select_groups(npu, core, &u, e);
    if (r < 0)
        return r;
    if (core->loaded_lut || !work)
        return 0; // a task that loads tables works on nothing
    r = emu_refuse_unread(&u, e);
    if (r < 0)
        return r;
    if (core->enable & CNA && core->buffer_lost)
        r = refuse_lost(npu, &u, e);
    if (r < 0)
        return r;
    if (core->enable & CNA) {
        core->buffer_lost = false;
        return run_dpu(&u, true, e);
    }
    if (core->enable & DPU)
        return run_dpu(&u, false, e);
    if (core->enable & PPU)
        return emu_pool_run(&u, e);
    return error_set(e, STATUS_PARAM_INVALID, "a task that enables %#x", core->enable);
}

static int run_task(struct emu_npu *npu, struct core *core, bool work, struct error *e)
{
    core->tasks_started++;
    int r = fetch_program(npu, core, e);
    if (r == 0)
        r = run_blocks(npu, core, work, e);
    if (r == 0)
        r = emu_memory_settle(npu->memory, e);
    if (r < 0)
        return r;
    core->raw |= core->raises;
    core->tasks_done++;
    return 0;
}

static int run_tasks(struct emu_npu *npu, unsigned core, bool work, struct error *e)
{
    struct core *c = &npu->core[core];
    uint32_t n = c->started ? emu_field(c->task_con, npu->chip->task_bits - 1, 0) : 0;
    c->started = false;
    c->tasks_started = c->tasks_done = 0;
    npu->memory->core = core;
    for (uint32_t i = 0; i < n; i++) {
        int r = run_task(npu, c, work, e);
        if (r < 0)
            return error_prefix(e, "task %u of %u", i + 1, n);
    }
    return 0;
}

int emu_npu_run(struct emu_npu *npu, unsigned core, struct error *e)
{
    return run_tasks(npu, core, true, e);
}

int emu_npu_pass(struct emu_npu *npu, unsigned core, struct error *e)
{
    return run_tasks(npu, core, false, e);
}
