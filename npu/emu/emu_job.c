// The registers that rknpu's driver writes for a job, in its order.
// Tests: test_emulator (orders, timeouts, wrong interrupts).
#include "npu/emu/emu_job.h"

#include "base/bytes.h"

#define CNA_POINTER  0x1004
#define CORE_POINTER 0x3004
#define PING_PONG    0xe // both groups of registers by turns
#define CORE_SHIFT   28  // of the pointers: which core's they are
// Of TASK_CON, above the count: counts are cleared, ping-pong.
#define TASK_CONTROL 7u

bool emu_task_is_shared(const struct emu_memory *m, const struct emu_task *task)
{
    enum { AMOUNT = 1, ENABLE = 3, CORES_SHIFT = 32, SHARED_SHIFT = 40 }; // words; bits of words
    uint64_t at = task->commands + 8 * (uint64_t)task->words;
    const uint8_t *trailer = emu_memory_at(m, at, 8 * EMU_TRAILER_WORDS, NULL);
    return trailer && ((read_le64(trailer + 8 * AMOUNT) >> CORES_SHIFT & 3) ||
                       (read_le64(trailer + 8 * ENABLE) >> SHARED_SHIFT & 1));
}

static int check_job(const struct emu_npu *npu, const struct emu_job *job, struct error *e)
{
    uint32_t most = (1u << emu_npu_task_bits(npu)) - 1;
    if (job->core >= EMU_CORES)
        return error_set(e, STATUS_PARAM_INVALID, "core %u: there are %d", job->core, EMU_CORES);
    if (!job->n || job->n > most)
        return error_set(e, STATUS_PARAM_INVALID, "a job of %u tasks: 1 to %u are possible", job->n,
                         most);
    if (job->base >> 32 || job->base & 0xf)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a job's base must be whole 16 bytes, below 2^32");
    if (job->tasks->commands < job->base || job->tasks->commands - job->base > UINT32_MAX ||
        job->tasks->commands & 0xf)
        return error_set(e, STATUS_PARAM_INVALID,
                         "commands must begin at whole 16 bytes, less "
                         "than 2^32 behind the base");
    return 0;
}

static void start(struct emu_npu *npu, const struct emu_job *job)
{
    unsigned core = job->core;
    uint32_t pointer = PING_PONG | core << CORE_SHIFT;
    emu_npu_write(npu, core, EMU_PC_BASE_ADDRESS, 1);
    emu_npu_write(npu, core, CNA_POINTER, pointer);
    emu_npu_write(npu, core, CORE_POINTER, pointer);
    emu_npu_write(npu, core, EMU_PC_BASE_ADDRESS, (uint32_t)(job->tasks->commands - job->base));
    emu_npu_write(npu, core, EMU_PC_REGISTER_AMOUNTS, emu_npu_amount(npu, job->tasks->words));
    emu_npu_write(npu, core, EMU_PC_INTERRUPT_MASK, job->tasks[job->n - 1].interrupt);
    emu_npu_write(npu, core, EMU_PC_INTERRUPT_CLEAR, ~0u);
    emu_npu_write(npu, core, EMU_PC_TASK_CON, TASK_CONTROL << emu_npu_task_bits(npu) | job->n);
    emu_npu_write(npu, core, EMU_PC_TASK_DMA_BASE_ADDR, (uint32_t)job->base);
    emu_npu_write(npu, core, EMU_PC_OPERATION_ENABLE, 1);
}

static enum emu_end end_of(int code)
{
    switch (code) {
    case 0:
        return EMU_DONE;
    case STATUS_DEVICE_UNAVAILABLE:
        return EMU_PAGE_FAULT;
    case STATUS_TIMEOUT:
        return EMU_TIMEOUT;
    case STATUS_MALLOC_FAIL:
        return EMU_NO_MEMORY;
    default:
        return EMU_NOT_MODELLED;
    }
}

int emu_job_run(struct emu_npu *npu, const struct emu_job *job, struct emu_result *ret,
                struct error *e)
{
    *ret = (struct emu_result){.end = EMU_NOT_MODELLED};
    int r = check_job(npu, job, e);
    if (r < 0)
        return r;
    start(npu, job);
    r = job->pass ? emu_npu_pass(npu, job->core, e) : emu_npu_run(npu, job->core, e);
    *ret = (struct emu_result){
        .end = end_of(r),
        .tasks = r == 0 ? job->n : emu_npu_tasks_done(npu, job->core),
        .interrupt = emu_npu_read(npu, job->core, EMU_PC_INTERRUPT_RAW_STATUS),
    };
    uint32_t waited = job->tasks[job->n - 1].interrupt;
    if (r == 0 && !(ret->interrupt & waited)) {
        ret->end = EMU_WRONG_INTERRUPT;
        r = error_set(e, STATUS_TIMEOUT, "the tasks raised interrupts %#x, and %#x is waited for",
                      ret->interrupt, waited);
    }
    return r;
}
