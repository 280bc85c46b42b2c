// A job as a driver gives it to a core: tasks of a `.rknn` file, by their records in memory,
// started through the PC's registers and waited for by interrupt. What a runtime for the emulator
// needs is here, in emu_memory.h (map and unmap) and in emu_npu.h (new and free):
//
//     emu_memory_map(&memory, 0x10000, host, size, &e);
//     emu_npu_new("rk3588", &memory, &npu, &e);
//     struct emu_job job = {.core = 0, .tasks = tasks, .n = n};
//     r = emu_job_run(npu, &job, &result, &e);
//
// A job for several cores is some for each of them: each ends in front of a task that they begin
// together, and the cores' first ones are run one after the other, in any order, then their second.
#pragma once

#include "npu/emu/emu_npu.h"

// What a task's record in a file says, with addresses instead of offsets.
struct emu_task {
    uint64_t commands;  // where its first word lies
    uint32_t words;     // before its trailer
    uint32_t interrupt; // that says it is done: EMU_INTERRUPT_DPU or EMU_INTERRUPT_PPU
};

/// Whether the task is a convolution that several cores do together, by its trailer: bits 16 and 17
/// of the next program's amount, or, of RK3576, bit 24 of what it enables. Such cores begin it at
/// the same time. In the shared files' programs that, and the ends of jobs, is all that they have
/// to wait for each other, if a job ends behind the pool that ends a part (test_open, with
/// "races"). False where its program is not mapped.
bool emu_task_is_shared(const struct emu_memory *m, const struct emu_task *task);

struct emu_job {
    unsigned core; // below EMU_CORES
    // The chip looks at the first one's address and words, and at the last one's interrupt: it goes
    // from one to the next by the links in their trailers, as many as n says.
    const struct emu_task *tasks;
    uint32_t n;
    uint64_t base; // added to the addresses in trailers; less than 2^32, whole 16 bytes
    bool pass;     // registers are set, and no block works (emu_npu_pass)
};

enum emu_end {
    EMU_DONE,
    EMU_PAGE_FAULT,      // an address that is not mapped
    EMU_TIMEOUT,         // a program that a chip would not come to the end of
    EMU_WRONG_INTERRUPT, // all tasks worked, but not the block that the driver waits for
    EMU_NOT_MODELLED,    // a register, a value or a command that the emulator does not know
    EMU_NO_MEMORY,       // of this process
};

struct emu_result {
    enum emu_end end;
    uint32_t tasks;     // that were done
    uint32_t interrupt; // what was raised: raw status
};

/// 0 when all tasks are done; else a status with the words of what happened. ret is set always.
/// Behind a failure drivers reset the core: emu_npu_reset().
int emu_job_run(struct emu_npu *npu, const struct emu_job *job, struct emu_result *ret,
                struct error *e);
