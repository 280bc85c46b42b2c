#include "tests/support/emu/emu_records.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define RECORD 40u // bytes: op_idx at 4, int_mask at 12, regcfg_amount at 24, regcmd_addr at 32

static uint32_t node_of(const uint8_t *records, uint32_t i)
{
    return read_le32(records + (size_t)i * RECORD + 4);
}

// The core's next records of one node; how many.
static int run_node(struct emu_npu *npu, const uint8_t *records, struct emu_records_core *c,
                    uint32_t node, uint32_t *done, struct error *e)
{
    cleanup(free_p) struct emu_task *tasks = calloc(c->n, sizeof *tasks);
    struct emu_job job = {.core = c->core, .tasks = tasks};
    struct emu_result result;
    if (!tasks)
        return error_no_memory(e, "tasks", c->n * sizeof *tasks);
    while (job.n < c->n && node_of(records, c->first + job.n) == node) {
        const uint8_t *r = records + (size_t)(c->first + job.n) * RECORD;
        tasks[job.n++] = (struct emu_task){.commands = read_le64(r + 32),
                                           .words = read_le32(r + 24),
                                           .interrupt = read_le32(r + 12)};
    }
    int s = emu_job_run(npu, &job, &result, e);
    *done += result.tasks;
    c->first += job.n;
    c->n -= job.n;
    return s;
}

int emu_records_run(struct emu_npu *npu, const uint8_t *records,
                    const struct emu_records_core *cores, unsigned n_cores, uint32_t *ret_done,
                    struct error *e)
{
    struct emu_records_core left[EMU_CORES];
    *ret_done = 0;
    for (unsigned i = 0; i < n_cores; i++)
        left[i] = cores[i];
    for (int s = 0; s == 0;) {
        struct emu_records_core *next = NULL;
        for (unsigned i = 0; i < n_cores; i++)
            if (left[i].n &&
                (!next || node_of(records, left[i].first) < node_of(records, next->first)))
                next = &left[i];
        if (!next)
            return 0;
        s = run_node(npu, records, next, node_of(records, next->first), ret_done, e);
        if (s < 0) {
            for (unsigned i = 0; i < n_cores; i++) // as a driver does
                emu_npu_reset(npu, cores[i].core);
            return s;
        }
    }
    return 0;
}
