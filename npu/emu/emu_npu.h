// An NPU as its registers and its memory show it: what a driver writes, and what programs in memory
// then do. It knows nothing of models.
//
// A program is a run of 64-bit words, {unit:16, value:32, register:16} from the top, that ends with
// a trailer: where the next program is, how long that is, and which blocks are to work. A driver
// points a core's PC at the first program, says how many there are (TASK_CON), and starts it:
//
//     emu_npu_write(npu, 0, EMU_PC_BASE_ADDRESS, address);        amount, task count, …
//     emu_npu_write(npu, 0, EMU_PC_OPERATION_ENABLE, 1);
//     r = emu_npu_run(npu, 0, &e);                                works off all tasks
//     status = emu_npu_read(npu, 0, EMU_PC_INTERRUPT_RAW_STATUS);
//
// emu_job.h does so for tasks of a file.
//
// Whatever a task uses that is not modelled ends the run, named. So does what a real chip answers
// with a page fault or a hang. Facts: docs/rknn-format.md.
//
// Not for several threads at once.
#pragma once

#include "npu/emu/emu_memory.h"
#include "tensor/arithmetic.h"

// The PC's registers.
enum {
    EMU_PC_OPERATION_ENABLE = 0x08,
    EMU_PC_BASE_ADDRESS = 0x10,     // of the next program
    EMU_PC_REGISTER_AMOUNTS = 0x14, // how long it is
    EMU_PC_INTERRUPT_MASK = 0x20,
    EMU_PC_INTERRUPT_CLEAR = 0x24,
    EMU_PC_INTERRUPT_STATUS = 0x28,
    EMU_PC_INTERRUPT_RAW_STATUS = 0x2c,
    EMU_PC_TASK_CON = 0x30,           // the low 12 bits (16 on later chips): how many tasks
    EMU_PC_TASK_DMA_BASE_ADDR = 0x34, // what programs' addresses are relative to
    EMU_PC_TASK_STATUS = 0x3c,        // tasks that were started, and above them, that were done
    EMU_PC_TASK_STATUS_LATER = 0x48,  // there on RK3562, RK3576 and RV1126B
};

// What a block raises when it has worked, in two bits: one for each group of registers.
#define EMU_INTERRUPT_DPU 0x300u
#define EMU_INTERRUPT_PPU 0xc00u

// Words behind those that set registers.
#define EMU_TRAILER_WORDS 4

struct emu_npu;

/// `memory` stays the caller's, who may change what is mapped between runs. STATUS_PARAM_INVALID
/// for a chip that is not known. Free with emu_npu_free().
int emu_npu_new(const char *chip, struct emu_memory *memory, struct emu_npu **ret, struct error *e);
void emu_npu_free(struct emu_npu *npu); // NULL is fine

/// A task that takes more products than that, or whose tensors have more elements, fails with
/// STATUS_TIMEOUT or STATUS_PARAM_INVALID. Unless it is said, 2^40, which is a minute or more of a
/// chip's time.
void emu_npu_limit(struct emu_npu *npu, uint64_t products);

/// How the chip computes where that is not known (arithmetic.h), other than what is taken for it.
void emu_npu_choose(struct emu_npu *npu, enum chip_switch s, unsigned choice);

/// Registers as a driver sees them; those of blocks that are not the PC go to the group that the
/// block's pointer selects. Offsets that no block has are ignored and read as 0.
void emu_npu_write(struct emu_npu *npu, unsigned core, uint32_t offset, uint32_t value);
uint32_t emu_npu_read(const struct emu_npu *npu, unsigned core, uint32_t offset);

/// How many bits of TASK_CON count tasks: 12 or 16.
uint32_t emu_npu_task_bits(const struct emu_npu *npu);

/// The amount of a program of n words before its trailer.
uint32_t emu_npu_amount(const struct emu_npu *npu, uint32_t n);

/// Works off the tasks that a core was started for; nothing when it was not. On failure the core
/// stands at the task that failed, and *e says which and why.
int emu_npu_run(struct emu_npu *npu, unsigned core, struct error *e);

/// The same, but no block works: registers and tables are set, and groups take turns, as if each
/// had. For whoever wants a later task alone, since that may only say what differs from earlier
/// ones.
int emu_npu_pass(struct emu_npu *npu, unsigned core, struct error *e);

/// Tasks that were worked off since the core was started last.
uint32_t emu_npu_tasks_done(const struct emu_npu *npu, unsigned core);

/// As when another program has used the core: in registers that programs have written each known
/// bit is the other one, in tables all are, and groups are at another turn.
void emu_npu_disturb(struct emu_npu *npu, unsigned core);

/// All registers and tables of a core as after power-on: zero.
void emu_npu_reset(struct emu_npu *npu, unsigned core);
