#include "tests/support/emu/emu_records.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define RECORD 40u // bytes: op_idx at 4, int_mask at 12, regcfg_amount at 24, regcmd_addr at 32

static struct emu_task task_at(const uint8_t *records, uint32_t i)
{
    const uint8_t *r = records + (size_t)i * RECORD;
    return (struct emu_task){
        .commands = read_le64(r + 32), .words = read_le32(r + 24), .interrupt = read_le32(r + 12)};
}

// The core's next records, up to one that it waits for the others in front of.
static int run_part(struct emu_npu *npu, const struct emu_memory *m, const uint8_t *records,
                    struct emu_records_core *c, uint32_t *done, struct error *e)
{
    cleanup(free_p) struct emu_task *tasks = calloc(c->n + 1, sizeof *tasks);
    struct emu_job job = {.core = c->core, .tasks = tasks};
    struct emu_result result;
    if (!tasks)
        return error_no_memory(e, "tasks", c->n * sizeof *tasks);
    while (job.n < c->n) {
        tasks[job.n] = task_at(records, c->first + job.n);
        if (job.n && emu_task_is_shared(m, &tasks[job.n]))
            break;
        job.n++;
    }
    int s = job.n ? emu_job_run(npu, &job, &result, e) : 0;
    *done += job.n ? result.tasks : 0;
    c->first += job.n;
    c->n -= job.n;
    return s;
}

int emu_records_run(struct emu_npu *npu, const struct emu_memory *m, const uint8_t *records,
                    const struct emu_records_core *cores, unsigned n_cores, uint32_t *ret_done,
                    struct error *e)
{
    struct emu_records_core left[EMU_CORES];
    bool more = true;
    int s = 0;
    *ret_done = 0;
    for (unsigned i = 0; i < n_cores; i++)
        left[i] = cores[i];
    while (s == 0 && more) {
        more = false;
        for (unsigned i = 0; i < n_cores && s == 0; i++) {
            s = run_part(npu, m, records, &left[i], ret_done, e);
            more = more || left[i].n;
        }
    }
    for (unsigned i = 0; i < n_cores && s < 0; i++) // as a driver does
        emu_npu_reset(npu, cores[i].core);
    return s;
}
